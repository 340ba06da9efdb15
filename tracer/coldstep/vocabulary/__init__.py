"""The words that all layers share: stacks, tracks, phases, causes, kinds of findings. Whoever adds one adds it here.

Recorder, loader, analyses and viewers ask the `Vocabulary` of a trace: ours, and what collectors of others declared as
`Words`, which the trace holds. Those come from a file that anybody may have written: they are cut, and never rename or
recolour ours. Imports the standard library, the order of tracks and `NamedTuple` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from coldstep.named_tuple import NamedTuple
from coldstep.vocabulary.track_order import TRACKS, placed
from coldstep.vocabulary.track_order import Track as Track

Key = TypeVar("Key")
Row = TypeVar("Row")

UNATTRIBUTED, IMPORTS, EAGER = "unattributed", "imports", "eager programs"


class Stack(NamedTuple):
    """A framework with its compiler, whose compiles a trace records. (A call stack is another thing.)"""

    name: str
    """`Compile.stack`."""
    words: str
    """Its name for people: "torch.compile"."""
    track: str
    """The kind of track that its compiles are drawn on."""
    packages: tuple[str, ...]
    """The framework's package, then others of it whose versions matter."""
    collector: str
    """Sees every compile."""
    parts: tuple[str, ...] = ()
    """Further collectors, without which phases are missing."""
    profiler: str | None = None
    """The collector that records devices."""
    breaks: bool = False
    """Whether its graphs can break."""
    exact: bool = False
    """Whether it compiles for any difference between two signatures: what differs is then proven to be the cause."""
    in_call: bool = False
    """Whether what it compiled for the CPU has run when the call returns."""
    by_value: bool = False
    """Whether numbers that are equal are one key to it, of whatever type they are."""
    compiler: str = ""
    """What compiles a function that it is given, an attribute of its package: "jit"."""
    sources: str = ""
    """An expression for the paths of its files, wherever it is built from source."""
    imports: tuple[str, ...] = ()
    """Other stacks that it imports where they are installed, and does not use."""
    generated: str = ""
    """The same of the files that it writes code into."""


class Phase(NamedTuple):
    """What a nanosecond went to. The name is dotted, the stack first."""

    name: str
    """Its name in a trace: "xla.compile"."""
    words: str
    """Its name for people."""
    light: str
    """Its colour on a light page, "#rrggbb"."""
    dark: str
    """The same on a dark page."""
    ansi: str = ""
    """Its colour in a terminal, one of `ANSI`."""
    compiles: bool = False
    """Whether it is compile time."""
    xla: bool = False
    """Whether XLA works in it: what its profiler shows is then of that compile."""
    pooled: bool = False
    """Whether a pool's threads work in it, a kernel each."""


class Cause(NamedTuple):
    """Why a compile happened again, in a word. What to do about ours stands in `coldstep.analysis.rules`."""

    name: str
    """Its name in a trace: "shape"."""
    meaning: str
    """What differed."""
    stacks: tuple[str, ...] = ()
    """Those that can have it."""
    advice: str = ""
    """Of a collector's own: what to change; {argument}, {before} and {after} are filled in."""


class Kind(NamedTuple):
    """A kind of finding."""

    name: str
    """Its name in a trace: "cache_limit"."""
    meaning: str
    """The thing found."""
    told: bool = False
    """Whether a report shows it in a section of its own."""
    reported: bool = False
    """Whether a collector of ours reports it, and no analysis: its evidence is gone when the program has ended."""


class Words(NamedTuple):
    """A collector's words that coldstep lacks: the attribute `vocabulary` of a third party's collector.

    A name that is ours, or another collector's, stays what it is; a cause of ours may be given advice for these stacks.
    A stack has the one collector that declares it, and a track of its own, whether it is among `tracks` or not.
    """

    stacks: tuple[Stack, ...] = ()
    """Compilers."""
    tracks: tuple[Track, ...] = ()
    """The tracks to draw."""
    phases: tuple[Phase, ...] = ()
    """What time goes to."""
    causes: tuple[Cause, ...] = ()
    """Why something is compiled again."""
    findings: tuple[Kind, ...] = ()
    """What it finds itself."""


ANSI = ("red", "green", "yellow", "blue", "magenta", "cyan", "white", "bright_red", "bright_green", "bright_yellow",
        "bright_blue", "bright_magenta", "bright_cyan")  # fmt: skip

STACKS = (
    Stack("jax", "JAX", "jax", ("jax", "jaxlib"), "jax", profiler="xspace", exact=True, compiler="jit",
          sources=r"/jax/(?:_src|experimental|interpreters|lax|nn|numpy|scipy)/|/jaxlib/"),
    Stack("dynamo", "torch.compile", "torch", ("torch",), "dynamo", ("inductor",), "kineto", breaks=True, in_call=True,
          compiler="compile", generated=r"/torchinductor_[^/]+/",
          sources=r"/torch/(?:_\w+/|nn/(?:modules|parallel|attention)/|optim/|utils/|autograd/|fx/)"),
    Stack("torch_xla", "torch_xla", "torch_xla", ("torch_xla",), "torch_xla", breaks=True,
          sources=r"/torch_xla/(?:(?:_\w+|core|distributed|experimental|amp)/|(?:torch_xla|runtime|__init__)\.py$)"),
    Stack("tensorflow", "TensorFlow", "tensorflow", ("tensorflow", "keras"), "tensorflow", exact=True, in_call=True,
          by_value=True, compiler="function", sources=r"/tensorflow/python/|/keras/src/",
          imports=("jax",), generated=r"/__autograph_generated_file\w*\.py$"),
)  # fmt: skip
FRAMEWORKS = tuple(stack.packages[0] for stack in STACKS)
PACKAGES = {package for stack in STACKS for package in stack.packages}
"""All of the frameworks'."""

STARTS = ("jax.backend_init", "tensorflow.context")
"""Phases in which a framework starts a device, and compiles nothing."""

BUILDS = ("build.native", "kernel.jit")
"""Phases in which something is built or compiled that no framework's compiler asked for: each is a row of `builds`."""

AUTOTUNE = "autotune"
"""The phase in which choices are compiled and timed."""
TRANSFERS = ("load.weights", "checkpoint", "download")
"""Phases in which a program reads, writes or fetches files: each is a row of `transfers`."""

PHASES = (
    Phase("jax.backend_init", "JAX backend start", "#9fb6d9", "#54709b", "blue", True),
    Phase("jax.trace", "JAX tracing", "#5b9bd9", "#5c9fe0", "blue", True),
    Phase("jax.lower", "JAX lowering", "#2f6fb4", "#3f7fc4", "blue", True),
    Phase("xla.compile", "XLA compilation", "#173f73", "#8fbcff", "cyan", True, xla=True),
    Phase("dynamo.trace", "Dynamo tracing", "#e3b23c", "#e3bb58", "yellow", True),
    Phase("dynamo.guards", "Dynamo guards", "#f2d684", "#a58a3c", "yellow", True),
    Phase("aot.joint", "AOTAutograd tracing", "#2a9d8f", "#3bb5a6", "bright_blue", True),
    Phase("aot.partition", "AOTAutograd partitioning", "#7bc8be", "#2c7d73", "bright_blue", True),
    Phase("aot.backward", "AOTAutograd backward", "#14665c", "#8cdccf", "bright_blue", True),
    Phase("inductor.passes", "Inductor graph passes", "#f4b183", "#a8663a", "cyan", True),
    Phase("inductor.lowering", "Inductor lowering", "#ea8c55", "#c9763f", "cyan", True),
    Phase("inductor.codegen", "Inductor code generation", "#d9622b", "#e58650", "cyan", True),
    Phase("inductor.compile", "Inductor compilation", "#e07a3f", "#d47a45", "cyan", True),
    Phase("inductor.cpp", "C++ compilation", "#a63d14", "#f4a071", "cyan", True, pooled=True),
    Phase("inductor.triton", "Triton compilation", "#8b1e3f", "#e46a8e", "cyan", True, pooled=True),
    Phase("inductor.cache", "Inductor cache", "#d8a58c", "#86604c", "cyan", True),
    Phase("inductor.cudagraphs", "CUDA graph set-up and recording", "#a67c1f", "#c79b3a", "cyan", True),
    Phase("torch_xla.trace", "torch_xla tracing", "#6d9f3f", "#86bb55", "cyan", True),
    Phase("torch_xla.lower", "torch_xla lowering", "#9fc67b", "#587d38", "cyan", True),
    Phase("torch_xla.compile", "torch_xla compilation", "#44701c", "#b2dd86", "cyan", True, xla=True),
    Phase("tensorflow.context", "TensorFlow device start", "#e3a9b8", "#8f5f6e", "magenta", True),
    Phase("tensorflow.trace", "TensorFlow tracing", "#d06a86", "#dd7f99", "magenta", True),
    Phase("tensorflow.autograph", "AutoGraph rewriting", "#b8456a", "#c9587c", "magenta", True),
    Phase("tensorflow.variables", "TensorFlow variable creation", "#ebc3a2", "#97714f", "magenta", True),
    Phase("tensorflow.gradient", "TensorFlow gradient functions", "#9b3d5e", "#f0a8bf", "bright_magenta", True),
    Phase("tensorflow.grappler", "TensorFlow first run", "#7d2a49", "#e58fae", "bright_magenta", True),
    Phase("tensorflow.xla", "TensorFlow XLA compilation", "#571331", "#ffc4d6", "bright_magenta", True),
    Phase("build.native", "native build", "#6b4226", "#c79a78", "cyan", True),
    Phase("build.wait", "waiting for another build", "#b89b86", "#80664f", "cyan"),
    Phase("kernel.jit", "kernel compilation", "#8a4b6b", "#cf8fb0", "cyan", True),
    Phase(AUTOTUNE, "autotuning", "#5d3a9b", "#b79bea", "bright_cyan", True),
    Phase("load.weights", "loading weights", "#3d7f9c", "#79b7d1", "bright_green"),
    Phase("download", "download", "#8fbfd4", "#46788c", "bright_green"),
    Phase("comm.init", "forming process groups", "#7a8c2e", "#b3c65c", "bright_green"),
    Phase("device.init", "device start", "#b9c47f", "#66703a", "bright_green"),
    Phase("capture", "CUDA graph capture", "#c2a24a", "#a98f3f", "bright_green"),
    Phase("checkpoint", "saving a checkpoint", "#4f9c8f", "#8ccfc4", "bright_green"),
    Phase("data", "data loading", "#a3c9a8", "#4c7352", "bright_green"),
    Phase("warmup", "warm-up runs", "#6b9a5e", "#9cc78f", "bright_green"),
    Phase("kv_cache", "making the KV cache", "#8aa68f", "#5f7f66", "bright_green"),
    Phase("execute", "execution", "#3f9f4a", "#58c064", "green"),
    Phase("transfer", "transfer", "#9bd09f", "#3d7a44"),
    Phase("gc", "garbage collection", "#a8877c", "#a58478"),
    Phase("coldstep", "coldstep itself", "#8b95a1", "#737d89"),
)
SUMS = (
    Phase(IMPORTS, "imports", "#9a6fc9", "#a983d6", "magenta"),
    Phase(EAGER, "eager programs", "#d9a514", "#d6ab3c", "yellow"),
    Phase(UNATTRIBUTED, "unattributed", "#dde1e6", "#434954", "red"),
)
"""Shown among the phases, but no phases: all `import.<package>`, the small programs of eager operations, and
time in which no phase was open."""

_J, _D, _X, _T = "jax", "dynamo", "torch_xla", "tensorflow"
CAUSES = (
    Cause("shape", "the size or number of a tensor's dimensions", (_J, _D, _X, _T)),
    Cause("dtype", "a tensor's dtype", (_J, _D, _X, _T)),
    Cause("weak_type", "whether a JAX number adapts to the dtype of the other operand", (_J,)),
    Cause("layout", "strides or memory format", (_D,)),
    Cause("sharding", "how an array is divided among devices", (_J, _D)),
    Cause("device", "the device", (_J, _D)),
    Cause("committed", "whether an array is pinned to its device", (_J,)),
    Cause("donation", "which arguments hand over their memory", (_J,)),
    Cause("requires_grad", "whether a tensor requires gradients", (_D, _T)),
    Cause("type", "an argument's Python type: None or not, a number or a tensor", (_J, _D, _T)),
    Cause("aliasing", "two arguments became, or ceased to be, the same tensor or equal numbers", (_D, _X, _T)),
    Cause("static_argument", "the value of a static argument", (_J,)),
    Cause("python_scalar", "a number, bool or string that the graph holds as a constant", (_D, _T)),
    Cause("module_attribute", "a number, bool or string in an attribute", (_J, _D, _T)),
    Cause("global", "a number, bool or string in a global", (_J, _D, _T)),
    Cause("closure", "a number, bool or string that the function captured", (_J, _D, _T)),
    Cause("pytree", "the structure of an argument: keys, lengths, types of its nodes", (_J, _T)),
    Cause("keyword", "an argument was added, was left out, or moved between position and keyword", (_J, _D, _T)),
    Cause("container", "the length or keys of a list, dict or set", (_D,)),
    Cause("training_mode", "train or eval", (_D, _X)),
    Cause("grad_mode", "whether no_grad or inference mode is on", (_D,)),
    Cause("autocast", "the autocast setting", (_D,)),
    Cause("config", "a setting or context of the framework", (_J, _D, _T)),
    Cause("new_function", "a new lambda, partial, method or jit object each time", (_J, _D, _T)),
    Cause("identity", "another object than the one that a guard remembers", (_D, _T)),
    Cause("baked_constant", "a Python number inside a lazy graph, or a value that XLA compiles in", (_X, _T)),
    Cause("cache_cleared", "the compiled programs were cleared", (_J, _D)),
    Cause("graph", "a lazy graph with other operations in it", (_X,)),
    Cause("unknown", "no cause could be shown", (_J, _D, _X, _T)),
    Cause("optimizer_state", "the optimizer had created its state since", (_D, _X)),
    Cause("gradient_state", "gradients were None in one step and tensors in the next", (_D, _X)),
    Cause("pending_setup", "lazy work from before the loop was compiled into the first step's graph", (_X,)),
    Cause("host_read", "a value was read while its graph was pending, which cut the graph", (_X,)),
)
"""In the order in which they are shown."""

FINDINGS = (
    Kind("recompile", "something was compiled again", told=True),
    Kind("graph_break", "a graph ended in the middle of a function", told=True),
    Kind("after_ready", "something was compiled after the program was declared warmed up", told=True),
    Kind("not_settled", "a kind of step went on compiling, or recording CUDA graphs, to the end", told=True),
    Kind("repeat_offender", "one function was compiled, or recorded, again and again"),
    Kind("cache_limit", "a function has reached its limit of variants, and runs uncompiled if none fits"),
    Kind("cache_limit_near", "a function has almost reached its limit of variants"),
    Kind("thread_limit", "a limit of variants was raised on another thread only", reported=True),
    Kind("uncompiled", "code that a program compiled, or could have compiled, runs uncompiled", reported=True),
    Kind("split_graph", "a graph was divided, and each part compiled by itself", reported=True),
    Kind("nested_region", "a region that PyTorch compiles once for all its calls", reported=True),
    Kind("silent_eager", "a function that should be compiled ran without being compiled"),
    Kind("skipped_forever", "PyTorch will never look at a function again"),
    Kind("failed_compile", "a compile failed"),
    Kind("fast_path_miss", "calls of a compiled JAX function went through Python", reported=True),
    Kind("eager_compiles", "many small programs were compiled for eager operations", told=True),
    Kind("unrolled", "a program contains each iteration of a Python loop"),
    Kind("captured_constants", "a program contains large arrays that its function did not get as arguments"),
    Kind("cache_miss", "a disk cache lacked these programs although it was filled, or does not store them"),
    Kind("straggler", "one rank compiled, or slept, while the others waited"),
    Kind("out_of_memory", "memory ran out, or nearly did"),
    Kind("dispatch_timed", "steps were timed without waiting for their results", told=True),
    Kind("stale_capture", "a program runs with a Python value that has changed since it was traced", reported=True),
    Kind("literal_equal", "a number was treated as an equal one of another type, whose graph ran", reported=True),
    Kind("second_trace", "a function was traced twice in its first call, since that call created variables"),
    Kind("blind", "something was not observed, or only in part", told=True),
)

PROFILE = "dynamo.pgo"
CACHES = {
    "xla.persistent": "persistent XLA cache",
    "inductor.fx_graph": "Inductor cache",
    "aot.autograd": "AOTAutograd cache",
    "inductor.cpp": "compiled C++ kernels",
    "triton": "Triton's cache",
    "torch_xla.persistent": "torch_xla's persistent cache",
    PROFILE: "Dynamo's profile",
}
"""The caches on disk, by layer. `PROFILE` alone has no programs: it is of which sizes changed in earlier processes."""

UNWRITTEN = {
    "threshold": "below a threshold",
    "not_first_process": "not the process that stores",
    "host_callback": "calls back into the process",
    "unpicklable": "cannot be stored",
    "no_backward": "its backward was never run",
    "late": "set after the first compile",
    "disabled": "disabled",
    "corrupt": "the entry is damaged",
    "read_only": "not writable",
    "full": "full",
    "exists": "an entry is there",
    "evicted": "evicted",
    "unsafe": "cannot be keyed safely",
}
"""Why a cache stored nothing of a compile."""

_PROGRAM_PARTS = {
    "computation", "gm", "example_inputs", "aot_config", "fx_kwargs[static_input_idxs]", "fx_kwargs[is_backward]",
    "fx_kwargs[is_inference]", "graph",
}  # fmt: skip

_OPTIONS = ("inductor_config[", "autograd_config[")


def is_of_program(component: str) -> bool:
    """Whether a component of a cache's key is the program itself, and not what it is compiled with."""
    return component in _PROGRAM_PARTS or component.partition("[")[0] in _PROGRAM_PARTS


def is_option(component: str) -> bool:
    """Whether a component stands in a cache's key only where it is not the default."""
    return component.startswith(_OPTIONS)


class Vocabulary(NamedTuple):
    """The words of one trace: ours and those of its collectors, each by its name."""

    stacks: dict[str, Stack]
    """The compilers."""
    tracks: dict[str, Track]
    """In the order of the timeline."""
    phases: dict[str, Phase]
    """The sums among them."""
    causes: dict[str, Cause]
    """Why something is compiled again."""
    findings: dict[str, Kind]
    """The kinds of findings."""
    advice: dict[tuple[str, str], str] = {}  # noqa: RUF012  # nobody adds to it
    """What collectors of others advise, by stack and cause."""

    def phase(self, name: str) -> str:
        """A phase in words; one without words of its own speaks for itself."""
        package = name.removeprefix("import.")
        known = self.phases.get(name)
        return f"import of {package}" if package != name else known.words if known else name

    def is_compiling(self, name: str) -> bool:
        """Whether a phase is compile time."""
        known = self.phases.get(name)
        return known is not None and known.compiles

    def has_phase(self, name: str) -> bool:
        """Whether a phase is declared; those of imports are as many as there are packages."""
        return name in self.phases or name.startswith("import.")

    def colour(self, phase: str) -> str:
        """A phase's colour in a terminal."""
        known = self.phases.get(IMPORTS if phase.startswith("import.") else phase)
        return known.ansi if known else ""

    def stack_of(self, track: str) -> str:
        """The stack whose compiles are drawn on tracks of that kind."""
        return next((stack.name for stack in self.stacks.values() if stack.track == track), track)

    def exact(self, stack: str) -> bool:
        """Whether that stack compiles for any difference between two signatures."""
        return stack in self.stacks and self.stacks[stack].exact

    def by_value(self, stack: str) -> bool:
        """Whether numbers that are equal are one key to that stack."""
        return stack in self.stacks and self.stacks[stack].by_value

    def in_call(self, stack: str) -> bool:
        """Whether what that stack compiles for the CPU has run when the call returns."""
        return stack in self.stacks and self.stacks[stack].in_call

    def packages(self) -> list[str]:
        """Those whose versions matter."""
        return [*dict.fromkeys(package for stack in self.stacks.values() for package in stack.packages), "numpy"]

    def rank(self, track: str) -> int:
        """Where tracks of a kind stand in the timeline."""
        return list(self.tracks).index(track)

    def joined(self, other: Vocabulary) -> Vocabulary:
        """Both; where they differ, this one's."""
        return Vocabulary(
            self.stacks | _new(other.stacks, self.stacks),
            placed(self.tracks, _new(other.tracks, self.tracks)),
            self.phases | _new(other.phases, self.phases),
            self.causes | _new(other.causes, self.causes),
            self.findings | _new(other.findings, self.findings),
            self.advice | _new(other.advice, self.advice),
        )


def package_of(collector: str) -> str:
    """The package that a collector watches; most have its name."""
    return _PACKAGE_OF.get(collector, collector)


_PACKAGE_OF = {
    name: stack.packages[0]
    for stack in STACKS
    for name in (stack.collector, *stack.parts, *([stack.profiler] if stack.profiler else []))
}


def _new(theirs: dict[Key, Row], ours: dict[Key, Row]) -> dict[Key, Row]:
    return {key: row for key, row in theirs.items() if key not in ours}


OURS = Vocabulary(
    {row.name: row for row in STACKS},
    {row.kind: row for row in TRACKS},
    {row.name: row for row in (*PHASES, *SUMS)},
    {row.name: row for row in CAUSES},
    {row.name: row for row in FINDINGS},
)


# --- the words of others ------------------------------------------------------------------------------------------

_MOST = {"stacks": 4, "tracks": 8, "phases": 64, "causes": 64, "findings": 64}
_MOST_COLLECTORS = 16
_LONGEST_NAME, _LONGEST_WORDS, _LONGEST_TEXT = 60, 60, 400  # characters
_NAME = r"[a-z][a-z0-9_]*"
_PHASE = r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+"  # with a dot: in a style sheet it is a name of its own
_PACKAGE = r"[A-Za-z_]\w*"
_COLOUR = r"#[0-9a-fA-F]{6}"
_GREY = {"light": "#b4bac2", "dark": "#6a727d"}
_NAMES = {stack.name for stack in STACKS}


def plain(words: Words) -> dict[str, Any]:
    """A collector's words as a trace holds them."""
    return {part: [row._asdict() for row in rows] for part, rows in words._asdict().items()}


def of_trace(declared: object) -> Vocabulary:
    """Our words and those that a trace holds, by collector: whatever is no word, or is ours, is left out."""
    vocabulary = OURS
    for collector, words in list(declared.items())[:_MOST_COLLECTORS] if isinstance(declared, Mapping) else ():
        if isinstance(words, Mapping):
            vocabulary = vocabulary.joined(_read(str(collector)[:_LONGEST_NAME], words))
    return vocabulary


def _read(collector: str, words: Mapping[str, object]) -> Vocabulary:
    declared = (_stack(collector, row) for row in _rows(words, "stacks"))
    stacks = {row.name: row for row in declared if row and row.name not in _NAMES}
    tracks = {row.kind: row for row in map(_track, _rows(words, "tracks")) if row}
    causes = [row._replace(stacks=tuple(stacks)) for row in map(_cause, _rows(words, "causes")) if row]
    return Vocabulary(
        stacks,
        {row.track: Track(row.track, row.words) for row in stacks.values()} | tracks,
        {row.name: row for row in map(_phase, _rows(words, "phases")) if row},
        {row.name: row for row in causes},
        {row.name: row for row in map(_kind, _rows(words, "findings")) if row},
        {(stack, row.name): row.advice for stack in stacks for row in causes if row.advice},
    )


def _rows(words: Mapping[str, object], part: str) -> list[Mapping[str, object]]:
    rows = words.get(part)
    return [row for row in rows[: _MOST[part]] if isinstance(row, Mapping)] if isinstance(rows, list | tuple) else []


def _stack(collector: str, row: Mapping[str, object]) -> Stack | None:
    name, track = _word(row, "name"), _word(row, "track")
    if not name or not track or track in OURS.tracks:  # on a track of ours are compiles of ours
        return None
    packages = row.get("packages")
    listed = packages[: _MOST["stacks"]] if isinstance(packages, list | tuple) else ()
    listed_packages = tuple(str(each) for each in listed if _fits(each, _PACKAGE))
    breaks, exact, in_call = (row.get(key) is True for key in ("breaks", "exact", "in_call"))
    words = _text(row, "words") or name
    return Stack(name, words, track, listed_packages or (name,), collector, (), None, breaks, exact, in_call)


def _track(row: Mapping[str, object]) -> Track | None:
    kind = _word(row, "kind")
    return Track(kind, _text(row, "words") or kind) if kind else None


def _phase(row: Mapping[str, object]) -> Phase | None:
    name = row.get("name")
    if not _fits(name, _PHASE) or str(name).startswith("import."):
        return None
    light, dark = (str(row[key]) if _fits(row.get(key), _COLOUR) else grey for key, grey in _GREY.items())
    ansi = str(row.get("ansi"))
    compiles = row.get("compiles") is True
    return Phase(str(name), _text(row, "words") or str(name), light, dark, ansi if ansi in ANSI else "", compiles)


def _cause(row: Mapping[str, object]) -> Cause | None:
    name = _word(row, "name")
    if not name:
        return None
    return Cause(name, _text(row, "meaning", _LONGEST_TEXT), (), _text(row, "advice", _LONGEST_TEXT))


def _kind(row: Mapping[str, object]) -> Kind | None:
    name = _word(row, "name")
    return Kind(name, _text(row, "meaning", _LONGEST_TEXT)) if name else None


def _word(row: Mapping[str, object], key: str) -> str:
    return str(row[key]) if _fits(row.get(key), _NAME) else ""


def _fits(value: object, form: str) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_NAME and re.fullmatch(form, value) is not None


def _text(row: Mapping[str, object], key: str, longest: int = _LONGEST_WORDS) -> str:
    value = row.get(key)
    return value[:longest] if isinstance(value, str) else ""
