"""torch_xla's private hooks and names: its step marker, counters and metrics, pending graphs, its words on a compile.

Nothing here imports torch_xla: the module is handed in.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any, ClassVar

from coldstep._util.expressions import expression
from coldstep._util.slotted import field, slotted
from coldstep.errors import contained
from coldstep_collectors.names import missing
from coldstep_collectors.patch import Patch
from coldstep_collectors.torch_xla._private import names

SEED = "<random seed>"
READ = "aten::_local_scalar_dense"
"""How torch_xla calls the read of a value, among the operations that it has no kernel for."""


@slotted
class Syncing:
    """Who has called the step marker. Live objects: for use inside the hook only."""

    kind: str
    """sync | compile (what `torch_xla.compile` and `step` do at their end) | entry (and before their beginning) |
    inputs (of the pending graph, before a torch.compile graph becomes an XLA graph)."""
    frame: FrameType
    function: Any = None
    """What the user gave to `torch_xla.compile`."""


class Samples:
    """A metric's samples: torch_xla keeps the last 1024, each stamped at its end with the wall clock."""

    def __init__(self, read: Callable[[str], Any], name: str) -> None:
        self._read, self._name = read, name
        self._count = 0
        self._total_ns = 0.0
        self.new()

    def new(self) -> list[tuple[int, int]]:
        """Those since the last call: begin and end, in nanoseconds of the wall clock."""
        count, _, samples = self._read(self._name) or (0, 0.0, ())
        fresh = count - self._count if count >= self._count else count  # the user may clear all metrics
        self._count = count
        ends = [(round(ended * 1e9), round(ns)) for ended, ns in (samples[-fresh:] if fresh else ())]
        return [(end - ns, end) for end, ns in ends]

    def spent_ns(self) -> int:
        """The sum of those since the last call of this method."""
        _, total_ns, _ = self._read(self._name) or (0, 0.0, ())
        spent = total_ns - self._total_ns if total_ns >= self._total_ns else total_ns
        self._total_ns = total_ns
        return round(spent)


class Internals:
    """What of torch_xla's insides this version has."""

    def __init__(self, torch_xla: ModuleType) -> None:
        self._xlac: Any = torch_xla._XLAC
        self._folder = os.path.join(os.path.dirname(torch_xla.__file__ or ""), "")
        self.usable = not missing(names.NEEDED)
        self.has_evidence = not missing(names.EVIDENCE)
        self.missing = missing(names.HOOKS)
        # found once: they are asked for each tensor in reach, and many times in each sync
        self._counter, self._tensor_id = names.COUNTER.find(), names.TENSOR_ID.find()

    # --- counters and metrics ---------------------------------------------------------------------------------

    def counter(self, name: str) -> int:
        """A counter's value, 0 before it has counted."""
        return self._counter(name) or 0

    def persistent(self) -> tuple[int, ...]:
        """How often its cache on disk was asked in vain, and how often what it had could not be loaded."""
        return tuple(map(self.counter, names.PERSISTENT))

    def device_type(self) -> str | None:
        """The kind of its devices: "CPU", "TPU", "CUDA"; None where unknown."""
        return _asked("torch_xla.runtime", "device_type")

    def matmul_precision(self) -> str | None:
        """That of matrix products, where the program may have set it."""
        return _asked("torch_xla.backends", "get_mat_mul_precision")

    def samples(self, metric: str) -> Samples:
        """The new values of a metric from now on."""
        return Samples(names.METRIC.find(), metric)

    def nodes(self, count: int) -> list[int | None]:
        """The sizes of the last `count` graphs."""
        _, _, samples = names.METRIC.find()("TensorsGraphSize") or (0, 0.0, ())
        sizes = [round(size) for _, size in samples[-count:]] if count else []
        return list(sizes) if len(sizes) == count else [None] * count

    def fallbacks(self) -> Counter[str]:
        """How often each operation has run on the CPU because a kernel is missing, by name, as in "aten::nonzero"; a
        read of a value counts as one."""
        executed = names.FALLBACKS.find() or list
        return Counter({name: self.counter(name) for name in executed()})

    def wait(self) -> None:
        """Block until everything that was handed to the devices has run."""
        names.WAIT.find()([])

    # --- the step marker --------------------------------------------------------------------------------------

    def around_syncs(self, begin: Callable[[FrameType], Any], end: Callable[[Any, bool], object]) -> Patch | None:
        """Call `begin(caller's frame)` before and `end(its result, failed)` after every sync that Python asks for."""
        if (form := names.SYNC.form()) is None:
            return None
        original = form.find()

        # called and filed as torch_xla's own: its debug output tells one of the user's own syncs by the
        # innermost frame, `sync` in a file that ends in torch_xla.py
        def sync(*args: Any, **kwargs: Any) -> Any:
            begun = begin(sys._getframe(1))
            failed = True
            try:
                result = original(*args, **kwargs)
                failed = False
                return result
            finally:
                end(begun, failed)

        return Patch(self._xlac, form.name, sync)

    def around_extractions(
        self, bridge: ModuleType, begin: Callable[[FrameType, Sequence[Any]], Any], end: Callable[[Any], object]
    ) -> Patch | None:
        """Call `begin(caller's frame, the graph's arguments)` before and `end(its result)` after a torch.compile graph
        becomes an XLA graph, in the first call of the result of backend="openxla"."""
        if (form := names.EXTRACT.form()) is None:
            self.missing += missing((names.EXTRACT,))
            return None
        original = form.find()

        def extract_compiled_graph(model: Any, args: Sequence[Any]) -> Any:
            begun = begin(sys._getframe(1), args)
            try:
                return original(model, args)
            finally:
                end(begun)

        return Patch(bridge, form.name, extract_compiled_graph)

    def syncing(self, frame: FrameType) -> Syncing:
        """Who asked for the sync that `frame` (torch_xla's own `sync`) hands on."""
        above = frame.f_back
        if above is None or not above.f_code.co_filename.startswith(self._folder):
            return Syncing("sync", frame)
        name = above.f_code.co_name
        if name in {form.says[0] for form in names.ENTRY.forms}:
            return Syncing("entry", above)
        if name in {form.says[0] for form in names.COMPILE.forms}:
            # resumed by contextlib's __exit__, of a with statement or of its decorator's `inner`
            leaving = above.f_back
            inner = leaving.f_back if leaving is not None else None
            function = None
            if inner is not None and inner.f_code.co_name == "inner" and leaving is not None:
                same_file = inner.f_code.co_filename == leaving.f_code.co_filename
                function = inner.f_locals.get("func") if same_file else None
            return Syncing("compile", above, function)
        if above.f_code.co_filename.endswith("dynamo_bridge.py"):
            return Syncing("inputs", above)
        return Syncing("sync", above)

    # --- pending graphs ---------------------------------------------------------------------------------------

    def id_of(self, tensor: Any) -> int:
        """torch_xla's number for the value that `tensor` holds now; an update in place makes it another. Where it
        has none, a number that no other tensor has."""
        number: int = self._tensor_id(tensor) if self._tensor_id is not None else -id(tensor)
        return number

    def pending(self, tensors: Sequence[Any]) -> list[Any]:
        """Those that are still to be computed. Live objects: for use inside the hook only."""
        needed = names.PENDING.find()(list(tensors))
        return [tensor for tensor, need in zip(tensors, needed, strict=True) if need]

    def inputs(self, roots: list[Any]) -> list[tuple[int | str, Any]]:
        """What the graph of pending tensors starts from: the number of each tensor (SEED for the random seed; a Python
        number's is nobody's), and a stand-in of its shape. Live objects: for use inside the hook only."""
        seed_of = names.SEED_ID.find()
        seed = seed_of() if seed_of is not None else None
        ids, tensors = names.INPUTS.find()(roots)
        return [(SEED if id == seed else id, tensor) for id, tensor in zip(ids, tensors, strict=True)]

    def hlo(self, roots: list[Any]) -> str:
        """The graph of pending tensors as text; lowers, and compiles nothing."""
        return str(names.HLO.find()(roots))

    def programs(self, roots: list[Any]) -> dict[str, str]:
        """The same graph, in the forms that a trace can keep; without those that torch_xla refuses."""
        texts = {}
        with contained():
            texts["lazy_ir"] = str(names.LAZY_IR.find()(roots))
        with contained():
            text = names.STABLEHLO.find()(roots, str(roots[0].device), [], False)
            texts["stablehlo"] = text.decode() if isinstance(text, bytes) else str(text)
        return texts


def _asked(module: str, function: str) -> str | None:
    """What a public function without arguments says, where its module has been imported and has it."""
    getter = getattr(sys.modules.get(module), function, None)
    return str(getter()) if getter is not None else None


def code_of(function: Any) -> Any:
    """The code object of a function, a method or a module's forward; None where it has none."""
    if isinstance(function, MethodType):
        function = function.__func__
    if not isinstance(function, FunctionType):
        function = getattr(type(function), "forward", None) or type(function).__call__
    return getattr(function, "__code__", None)


# --- torch_xla's own words on a compile -----------------------------------------------------------------------


@slotted
class Report:
    """torch_xla's report of a graph that it compiles."""

    fingerprint: str = ""
    inputs: int | None = None
    outputs: int | None = None
    frames: list[tuple[str, str, int]] = field(default_factory=list)
    """The Python stack, innermost first: function, file, line."""

    @property
    def of_dynamo(self) -> str | None:
        """Of a compile in a call of torch.compile's: "graph", which is Dynamo's; "inputs", pending work before it."""
        if not any(file.endswith("dynamo_bridge.py") for _, file, _ in self.frames):
            return None
        return "graph" if any(function == "extract_graph_helper" for function, _, _ in self.frames) else "inputs"

    cause: str = ""
    """What made it compile or run, in its words."""
    name: str = ""
    """Of the function that was given to torch_xla.compile."""

    def take(self, line: str) -> None:
        """Take in a line, without its prefix."""
        name, _, value = line.strip().partition(": ")
        if name == "Graph Name":
            self.name = value
        elif name == "Graph Hash":
            self.fingerprint = value
        elif name == "Number of Graph Inputs":
            self.inputs = int(value)
        elif name == "Number of Graph Outputs":
            self.outputs = int(value)
        elif frame := _REPORTED_FRAME.fullmatch(line):
            self.frames.append((frame[1], frame[2], int(frame[3])))
        elif not self.cause and line.startswith("  "):
            self.cause = line.strip()


# torch_xla 2.9: "  step (/repo/train.py:4)"
_REPORTED_FRAME = expression(r"  (.+) \((.+):(\d+)\)")
COMPILATION, EXECUTION = "Compilation Analysis: ", "Execution Analysis: "
"""What each line of a report begins with."""
COMPILATION_CAUSE, EXECUTION_CAUSE = "Compilation Cause", "Execution Cause"
"""The first line of each, without that."""


_STAYS = "torch_xla's compilation analysis (read once): it goes on describing each compile, to a file that is gone"


class Reports:
    """torch_xla's compilation analysis, written to a file of ours: the only source of the line of a host read.

    Level 1 costs nothing but on a compile. torch_xla reads the variables once, at its first sync; they are taken back
    as soon as it has, so that children don't inherit them for long.
    """

    _NAMES = ("PT_XLA_DEBUG_LEVEL", "PT_XLA_DEBUG_FILE", "PT_XLA_DEBUG_MAX_FRAME")

    _kept: ClassVar[str | None] = None
    """The folder that torch_xla has read; it writes there for good."""

    def __init__(self) -> None:
        if Reports._kept is not None and not os.path.exists(Reports._kept):
            os.mkdir(Reports._kept, 0o700)
            self._folder = Reports._kept
        else:
            self._folder = tempfile.mkdtemp(prefix="coldstep-")
        self._file = os.path.join(self._folder, "torch_xla")
        self._at = 0
        # past os.environ: no copy that the program makes of it shall have them
        for name, value in zip(self._NAMES, ("1", self._file, "100"), strict=True):
            os.putenv(name, value)
        self._set = True
        self.read_by_torch_xla = False

    @classmethod
    def taken(cls) -> bool:
        """Whether the user has torch_xla explain itself already: its words are the user's."""
        return any(name in os.environ for name in (*cls._NAMES, "PT_XLA_DEBUG"))

    def text(self) -> str:
        """What it has written since the last call."""
        self.withdraw()
        try:
            with open(self._file, "rb") as file:
                file.seek(self._at)
                text = file.read()
        except OSError:
            return ""
        self.read_by_torch_xla = True
        Reports._kept = self._folder
        self._at += len(text)
        return text.decode(errors="replace")

    def read(self) -> list[Report]:
        """Those since the last call."""
        reports: list[Report] = []
        lines = (line for line in self.text().splitlines() if line.startswith(COMPILATION))
        for words in (line.removeprefix(COMPILATION) for line in lines):
            if words.strip() == COMPILATION_CAUSE:
                reports.append(Report())
            elif reports:
                reports[-1].take(words)
        return reports

    def withdraw(self) -> None:
        """Take the variables back: torch_xla has read them."""
        if self._set:
            self._set = False
            for name in self._NAMES:
                if name not in os.environ:  # else the user has set them meanwhile
                    os.unsetenv(name)

    def stop(self) -> list[str]:
        """Remove the file; what torch_xla will write to it from now on fails in silence."""
        self.withdraw()
        shutil.rmtree(self._folder, ignore_errors=True)
        return [_STAYS] if self.read_by_torch_xla else []
