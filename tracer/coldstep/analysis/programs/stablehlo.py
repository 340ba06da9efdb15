"""Reads a StableHLO module into one dataflow graph, with the MLIR parser that JAX ships.

JAX is imported in here and nowhere else in the analyses; xDSL, the other parser there is, knows StableHLO only in
MLIR's generic form, which no framework prints.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from math import prod
from typing import Any

from coldstep._util.slotted import slotted
from coldstep.analysis.programs.sources import Sources, Spot, plain
from coldstep.errors import ColdstepError

INPUT, OUTPUT, CONSTANT = "input", "output", "constant"
_CALLS = ("func.call",)
_LOOP = "stablehlo.while"
_RETURNS = ("func.return", "stablehlo.return")
_ATTRIBUTES = ("dot_dimension_numbers", "slice_sizes")
_SHOWN_NUMBERS = 4
_READ_NUMBERS = 1 << 16
# TensorFlow 2.21: "%c_4 = stablehlo.constant dense<"0x0100000003000000"> : tensor<2x32xi1>"
_TRUTHS = re.compile(r'dense<"0x([0-9A-Fa-f]+)"> : tensor<((?:\d{1,10}x){1,16})i1>')


class ParserError(ColdstepError, ValueError):
    """A text that is no StableHLO module, or no parser to read it with; the message is one clear line."""


@dataclass(slots=True, frozen=True)
class Type:
    """A tensor's element type and dimensions."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return prod(self.dims)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass(slots=True, eq=False)
class Node:
    """An operation, input, or output. Functions that the module calls are inlined; `calls` holds through which."""

    op: str
    spot: Spot
    """The call's, for operations inlined from a function with several callers."""
    operands: list[tuple[Node, int]]
    """The operation that made each operand, and which of its results."""
    types: list[Type]
    calls: tuple[tuple[str, int], ...] = ()
    """Function and line of each call that it was inlined through, outermost first."""
    attributes: dict[str, str] = field(default_factory=dict)
    table: str | None = None
    """The values of a constant that is not one value over and over, shortened."""
    counts: bool = False
    """Whether those values are 0, 1, 2, …"""
    order: int = 0

    @property
    def type(self) -> Type:
        """The type of the first result."""
        return self.types[0] if self.types else Type("", ())


Values = list[tuple[Node, int]]
"""The operation that made each value, and which of its results."""
Calls = tuple[tuple[str, int], ...]
"""Function and line of each call, outermost first."""


@slotted
class Graph:
    """A module's main function. `nodes` come after their operands; a loop's body stands there once."""

    nodes: list[Node]
    inputs: list[Node]
    outputs: list[Node]


def parse(text: str, root: str = "") -> Graph:
    """The graph of the module in `text`; files of the program are named relative to `root`. Raises ParserError."""
    context, ir = _context()
    try:
        module = ir.Module.parse(_TRUTHS.sub(_a_byte_each, plain(text)), context)
        functions = {op.attributes["sym_name"].value: op for op in module.body if op.operation.name == "func.func"}
        main = functions.get("main") or next(iter(functions.values()))
        return _Reader(ir, functions, Sources(text, root)).read(main)
    except (ir.MLIRError, StopIteration) as error:
        lines = str(error).strip().splitlines()
        raise ParserError(f"no StableHLO module: {lines[1] if len(lines) > 1 else 'it has no function'}") from None
    except (IndexError, KeyError, RecursionError):
        # a function without a body or of no such name, a loop that uses what is outside, a function that calls itself
        raise ParserError("a StableHLO module whose dataflow cannot be followed") from None


def _a_byte_each(match: re.Match[str]) -> str:
    """Truth values as today's MLIR writes them: an older one puts eight into a byte, the first in the lowest bit."""
    number = prod(map(int, match[2].split("x")[:-1]))
    if number < 2 or len(match[1]) != (number + 7) // 8 * 2:
        return match[0]
    packed = bytes.fromhex(match[1])
    each = bytes(packed[at >> 3] >> (at & 7) & 1 for at in range(number))
    return f'dense<"0x{each.hex()}"> : tensor<{match[2]}i1>'


def _context() -> tuple[Any, Any]:
    try:
        context = import_module("jax.interpreters.mlir").make_ir_context()
        ir = import_module("jax.extend.mlir.ir")
    except (ImportError, AttributeError) as error:
        raise ParserError(f"StableHLO is read with JAX's parser: pip install 'coldstep[ir]' ({error})") from None
    context.allow_unregistered_dialects = True
    return context, ir


class _Reader:
    def __init__(self, ir: Any, functions: dict[str, Any], sources: Sources) -> None:
        self._ir = ir
        self._functions = functions
        self._sources = sources
        self._callers = Counter[str]()
        for function in functions.values():
            function.operation.walk(self._count)
        self._nodes: list[Node] = []

    def _count(self, op: Any) -> Any:
        if op.operation.name in _CALLS:
            self._callers[op.attributes["callee"].value] += 1
        return self._ir.WalkResult.ADVANCE

    def read(self, main: Any) -> Graph:
        block = main.regions[0].blocks[0]
        begin = Spot(main.operation.location.start_line)
        inputs = [self._add(Node(INPUT, begin, [], [self._type(value)])) for value in block.arguments]
        results = self._block(block, [(node, 0) for node in inputs], ())
        *_, returned = block.operations
        end = Spot(returned.operation.location.start_line)
        outputs = [self._add(Node(OUTPUT, end, [value], [value[0].types[value[1]]])) for value in results]
        return Graph(self._nodes, inputs, outputs)

    def _add(self, node: Node) -> Node:
        node.order = len(self._nodes)
        self._nodes.append(node)
        return node

    def _block(
        self, block: Any, arguments: Values, calls: Calls, call: Spot | None = None, shared: bool = False
    ) -> Values:
        """Read a function's operations; returns what it returns. `call` is where it is called, `shared` whether from
        elsewhere too: its own lines would not tell which call is meant."""
        known: dict[Any, tuple[Node, int]] = dict(zip(block.arguments, arguments, strict=True))
        for op in block.operations:
            name, line = op.operation.name, op.operation.location.start_line
            operands = [known[value] for value in op.operands]
            if name in _RETURNS:
                return operands
            spot = call if call is not None and shared else self._spot(line, call)
            if name in _CALLS:
                callee = op.attributes["callee"].value
                body = self._functions[callee].regions[0].blocks[0]
                several = shared or self._callers[callee] > 1
                made = self._block(body, operands, (*calls, (callee, line)), spot, several)
            else:
                node = self._add(self._node(op, name, spot, operands, calls))
                made = [(node, number) for number in range(len(node.types))]
                if name == _LOOP:
                    made = self._block(op.regions[1].blocks[0], operands, calls, call, shared)
            known.update(zip(op.results, made, strict=True))
        return []

    def _spot(self, line: int, call: Spot | None) -> Spot:
        """A line, with the call's source where it has none: JAX's own functions have not."""
        spot = self._sources.spot(line)
        return spot if spot.source is not None or call is None else Spot(line, call.source)

    def _node(self, op: Any, name: str, spot: Spot, operands: Values, calls: Calls) -> Node:
        short = name.rpartition(".")[2]
        node = Node(short, spot, operands, [self._type(value) for value in op.results], calls)
        if name == _LOOP:
            return node
        if short == CONSTANT:
            self._read_constant(op.attributes["value"], node)
        elif op.regions and (inner := self._inner(op.regions)):
            node.op = f"{short} {inner}"
        else:
            node.attributes = {name: str(op.attributes[name]) for name in _ATTRIBUTES if name in op.attributes}
        return node

    def _inner(self, regions: Iterable[Any]) -> str:
        """The first operation of the function that a reduction or a scatter applies."""
        blocks = (block for region in regions for block in region.blocks)
        name: str = next((op.operation.name for block in blocks for op in block.operations), "")
        return "" if name in _RETURNS else name.rpartition(".")[2]

    def _read_constant(self, value: Any, node: Node) -> None:
        if node.type.elements < 2 or getattr(value, "is_splat", True):
            return
        node.table = f"{node.type.elements} values"
        if node.type.elements > _READ_NUMBERS:
            return
        try:
            values = list(value)
        except (TypeError, ValueError):  # an element type that the bindings cannot hand out one by one
            return
        node.counts = values == list(range(len(values)))
        shown = ", ".join(str(item) for item in values[:_SHOWN_NUMBERS])
        rest = f", … {values[-1]}" if len(values) > _SHOWN_NUMBERS else ""
        node.table = f"[{shown}{rest}]"

    def _type(self, value: Any) -> Type:
        if not isinstance(value.type, self._ir.RankedTensorType):
            return Type(str(value.type), ())
        return Type(str(value.type.element_type), tuple(value.type.shape))
