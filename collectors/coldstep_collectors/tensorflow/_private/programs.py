"""A name for a graph of TensorFlow's that is the same in every process: a hash of what it computes.

No name of a node, function or variable is in it, and no option or device number. Nodes are numbered as they come, and
so are the functions that they call.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from operator import itemgetter
from typing import Any

from coldstep.errors import contained
from coldstep_collectors.sha import sha256

_NO_PART = (
    *("shared_name", "container"),  # what a variable or a table is called
    *("config", "config_proto", "executor_type"),  # options under which a function is called
)
_MAY_CALL = ("func", "list")  # kinds of attributes that may name functions
_FIRST = itemgetter(0)


def program(definition: Any, outputs: Iterable[str]) -> str:
    """The name: "1:" and 16 hex digits, of a graph's definition and the names of its outputs."""
    normal = _Normal(definition.library.function)
    normal.returns(normal.nodes(definition.node, ()), outputs)
    return f"1:{normal.digest()}"


class Naming:
    """A graph's name in the making: on coldstep's own thread, while the program's compiles the graph.

    The names are written down at once: TensorFlow changes a graph that is called under a tape.
    """

    def __init__(self, graph: Any) -> None:
        self._graph: tuple[Any, list[str]] | None = graph.as_graph_def(), [tensor.name for tensor in graph.outputs]
        self._name: str | None = None

    def make(self) -> None:
        """Make it, where it is not made yet. Never raises: a program without a name is compared with none."""
        graph, self._graph = self._graph, None
        if graph is not None:
            with contained():
                self._name = program(*graph)

    def args(self) -> dict[str, str]:
        """What the compile's end gets of it: see `coldstep.events.End.later`."""
        self.make()
        return {"program": self._name} if self._name is not None else {}


class _Normal:
    """A graph in normal form, hashed as it is said."""

    def __init__(self, functions: Iterable[Any]) -> None:
        self._functions = {function.signature.name: function for function in functions}
        self._met: dict[str, int] = {}
        self._said = [b"1"]

    def digest(self) -> str:
        """16 hex digits for all that was added."""
        return sha256(b"".join(self._said)).hexdigest()[:16]

    def nodes(self, nodes: Iterable[Any], arguments: Iterable[str]) -> dict[str, str]:
        """Node by node; `arguments` are the names of a function's own. Returns the number of each name."""
        numbers = {name: f"a{number}" for number, name in enumerate(arguments)}
        listed = list(nodes)
        numbers |= {node.name: str(number) for number, node in enumerate(listed)}
        parts = self._said
        for node in listed:  # thousands: each call counts
            operation = node.op
            self._say(operation, _device(node.device), *[numbers.get(x) or _renamed(x, numbers) for x in node.input])
            for name, value in sorted(node.attr.items(), key=_FIRST):
                if head := _head(name):
                    if value.WhichOneof("value") in _MAY_CALL:
                        parts.append(head)
                        self._attribute(value)
                    else:
                        parts += head, value.SerializeToString(deterministic=True), b"\x1e"
            if operation in self._functions:
                self._call(operation)  # a function that is called like an operation
        return numbers

    def returns(self, numbers: dict[str, str], results: Iterable[str]) -> None:
        """What of it is handed back."""
        self._say("returns", *(_renamed(each, numbers) for each in results))

    def _attribute(self, value: Any) -> None:
        kind = value.WhichOneof("value")
        if kind == "func":
            self._function(value.func)
        elif kind == "list" and value.list.func:
            for function in value.list.func:
                self._function(function)
        else:
            self._said += value.SerializeToString(deterministic=True), b"\x1e"

    def _function(self, named: Any) -> None:
        """A function that an operation is given, with what it is given itself."""
        for name, value in sorted(named.attr.items(), key=_FIRST):
            if not name.startswith("_"):
                self._say(name)
                self._attribute(value)
        self._call(named.name)

    def _call(self, name: str) -> None:
        """A function's number, and where it is met for the first time what it computes."""
        if (function := self._functions.get(name)) is None:
            return
        known = name in self._met
        self._say("function", str(self._met.setdefault(name, len(self._met))))
        if known:
            return
        signature = function.signature
        arguments = [argument.name for argument in signature.input_arg]
        self._say(*(str(argument.type) for argument in (*signature.input_arg, *signature.output_arg)))
        numbers = self.nodes(function.node_def, arguments)
        results = [function.ret[result.name] for result in signature.output_arg]
        effects = [function.control_ret[effect] for effect in signature.control_output]
        self.returns(numbers, (*results, *effects))

    def _say(self, *words: str) -> None:
        """Words, with a mark at their end, so that no two sayings read alike."""
        self._said += "\x1f".join(words).encode("utf-8", "replace"), b"\x1e"


def _renamed(reference: str, numbers: dict[str, str]) -> str:
    """ "^node" and "node:output:0" with the node's number."""
    control, bare = ("^", reference[1:]) if reference.startswith("^") else ("", reference)
    name, colon, output = bare.partition(":")
    return f"{control}{numbers.get(name, name)}{colon}{output}"


@cache
def _head(attribute: str) -> bytes:
    """What is said before an attribute's value; nothing of one that has no part in what is computed."""
    return b"" if attribute.startswith("_") or attribute in _NO_PART else attribute.encode("utf-8", "replace") + b"\x1e"


@cache
def _device(text: str) -> str:
    """ "/job:localhost/replica:0/task:0/device:CPU:0" as "CPU"."""
    return text.rpartition("device:")[2].strip("/").partition(":")[0].upper()
