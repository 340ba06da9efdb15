"""`coldstep run`: a script or module under a trace, as Python itself would run it, or any command, whose Pythons are
traced. Standard library only."""

from __future__ import annotations

import argparse
import atexit
import builtins
import contextlib
import importlib.util
import io
import os
import re
import sys
import zipimport
from collections.abc import Callable
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from coldstep._util.labels import is_name
from coldstep._util.pythons import untried
from coldstep._util.stderr import say
from coldstep.errors import refuse_to_replace
from coldstep.job.job import Job
from coldstep.job.root import begin_job, place, with_parts
from coldstep.recording.device_window import CHOICES, UNTIL_SETTLED
from coldstep.recording.options import Options
from coldstep.recording.output import own_name
from coldstep.session import Session
from coldstep.tracing import Block
from coldstep_shim import WAITS
from coldstep_viewers import marking
from coldstep_viewers.commands.output import echo, fail, or_fail
from coldstep_viewers.commands.record.job import run_command
from coldstep_viewers.safe_text import plain

# coldstep: "train:Trainer.step"
_STEP = re.compile(r"(?P<module>[\w.]+):(?P<function>\w+(\.\w+)*)")
_USAGE = (
    "coldstep run [-o FILE] [--step MODULE:FUNCTION] [--collectors A,B] [--device WHEN] [--stacks] [--ir] "
    "[--no-live] [--no-infer] [--no-children] [--no-waits] [--label NAME=VALUE] [--ready-after N] "
    "(script.py | -m module | command) [arguments]"
)
_OF_COMMANDS = ("output", "waits", "label")  # options that are for a command, too
_AS_GIVEN = ("collectors", "device", "stacks", "live", "ir", "infer", "ready_after")  # of a trace's, by their names
_SHELLS = (".sh", ".bash", ".zsh", ".fish", ".bat", ".ps1")
_BEGIN_BYTES = 256
_EXAMPLE = """\
example:
  coldstep run train.py --epochs 1
  coldstep run -o run.pftrace --step __main__:train_step train.py
  coldstep run -m package.train --epochs 1
  coldstep run torchrun --nproc-per-node 2 train.py

Steps are the script's own marks (`with coldstep.step():`), and the calls of the functions or methods
(module:Class.method) given with --step. Without either, coldstep infers them: from the marks of other tools, from the
trainer that runs the loop, from optimizers, from calls of a compiled function. The report names the source. Arguments
after the script or module are its own. The exit code is the script's.

coldstep also traces the processes that the script starts. Each that compiles writes a file of its own beside FILE, and
coldstep report FILE shows them all. A command is looked up on PATH and run unchanged. COLDSTEP=FILE in its environment
does the same."""


def main(argv: list[str]) -> int:
    """Run what `argv` asks for. Returns an exit code; what ends the script early passes through, as it came."""
    options, target = _parse(argv)
    is_module = target[0] == "-m"
    if not is_module and (path := _command_of(target[0])) is not None:
        return run_command(path, target, options, _given(options, target))
    name, arguments = (target[1], target[2:]) if is_module else (target[0], target[1:])
    script = _check(name, is_module)
    for module, function in options.step:
        marking.want(module, function)
    default = name.rpartition(".")[2] if is_module else Path(name).stem
    with or_fail(f"cannot write to {options.output or 'the current folder'}"):
        file = options.output or f"{default}.pftrace"
        output, job = place(file, default, asked=options.output is not None, children=options.children)
        refuse_to_replace([script] if script is not None else [], output)
    if not options.waits:
        os.environ[WAITS] = "0"  # for the processes below, too
    ours = sys.modules["__main__"], os.getpid()
    recording, run = _recorded(argv, output, options, job)
    if job is not None:
        begin_job(job)
    for module in {module for module, _ in options.step} - {"__main__"}:
        run.sink.when_imported(module, lambda found: marking.mark(vars(found)))
    for module in marking.COMPILERS if options.step else ():
        run.sink.when_imported(module, marking.watch_compiler)
    ended: BaseException | None = None
    try:
        _execute(name, arguments, is_module)
    except BaseException as error:
        # no reference to the script's frames, which Python lets go before it waits for threads: it keeps them itself
        # of any error but this one
        ended = SystemExit(error.code) if isinstance(error, SystemExit) else error
        raise
    finally:
        sys.excepthook = _without_our_frames(sys.excepthook)
        if os.getpid() == ours[1]:  # a child that the script forked has no part in the trace
            # at exit: behind the traceback, if there is one, and when Python has waited for the script's threads
            if isinstance(ended, KeyboardInterrupt):
                atexit.register(_interrupted_again)  # comes after what is registered next
            atexit.register(_end, recording, run, output, ended)
    return 0


def _recorded(argv: list[str], output: str, options: argparse.Namespace, job: Job | None) -> tuple[Block, Session]:
    """The trace, begun."""
    try:
        # absolute, for the script may change its folder before the trace is read again
        command = ["coldstep", "run", *argv]
        chosen = {name: getattr(options, name) for name in _AS_GIVEN}
        chosen |= {"command": command, "labels": dict(options.label), "job": job}
        # joinable: and the command prints the headline itself
        asked = Options(os.path.abspath(output), joinable=True, whole_process=True, **chosen)
        recording = Block(asked)
        return recording, recording.__enter__()
    except OSError as error:
        fail(f"cannot write {output}: {error.strerror}")
    except ValueError as error:
        fail(str(error))


# --- arguments ----------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def print_help(self, file: Any = None) -> None:
        if sys.stdout is not None:
            echo(self.format_help().removesuffix("\n"))

    def error(self, message: str) -> NoReturn:
        fail(f"{message} (see coldstep run --help)")


def _parse(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our options, and the script or `-m module` with all that follows."""
    parser = _Parser("coldstep run", _USAGE, "Run a script, a module or a command under a trace, unchanged.", _EXAMPLE)
    parser.formatter_class, parser.allow_abbrev = argparse.RawDescriptionHelpFormatter, False
    for names, row in _OPTIONS.items():
        parser.add_argument(*names.split(), **row)
    # argparse must not see the script's own flags: find where ours end
    end = 0
    while end < len(argv) and argv[end].startswith("-") and argv[end] not in ("-m", "--"):
        alone = argv[end] in _FLAGS or "=" in argv[end] or re.match(r"-o.", argv[end])
        end += 1 if alone else 2
    options, unknown = parser.parse_known_args(argv[:end])
    if unknown:
        from difflib import get_close_matches

        near = get_close_matches(unknown[0].partition("=")[0], [*_FLAGS, *_VALUES], 1)
        hint = f": did you mean {near[0]}?" if near else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    target = argv[end + 1 :] if argv[end : end + 1] == ["--"] else argv[end:]
    if not target or target == ["-m"]:
        parser.error("no module given after -m" if target else "no script and no command given")
    return options, target


def _function(text: str) -> tuple[str, str]:
    match = _STEP.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not module:function, such as __main__:train_step")
    return match["module"], match["function"]


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not is_name(name):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not name=value with a name of small letters, digits and _, such as team=search"
        )
    return name, value


def _steps(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of steps, such as 3")
    return int(text)


def _names(text: str) -> list[str]:
    names = text.split(",")
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names, such as jax,dynamo")
    return names


def _without(dest: str, help_: str) -> dict[str, Any]:
    """What argparse takes of an option that switches off what is on by itself."""
    return {"dest": dest, "action": "store_false", "help": help_}


def _repeated(metavar: str, type_: Callable[[str], object], help_: str) -> dict[str, Any]:
    """The same of an option that may be given several times."""
    about = {"metavar": metavar, "type": type_, "help": f"{help_}; may be given several times"}
    return about | {"action": "append", "default": []}


_OPTIONS: dict[str, dict[str, Any]] = {
    "-o --output": {
        "metavar": "FILE",
        "help": "where the trace goes; replaces an existing trace (default: the script's name with .pftrace, in the "
        "current folder). {rank} and {pid} are filled in. If RANK is set and FILE has no {rank}, -rank<N> is added. In "
        "a folder, the trace is named after the script and its rank or process. Only its owner can read it (mode 0600)",
    },
    "--step": _repeated(
        "MODULE:FUNCTION",
        _function,
        "make every call of this function a step (__main__:train_step for one of the script itself)",
    ),
    "--collectors": {"metavar": "A,B", "type": _names, "help": "attach only these (default: all)"},
    "--device": {
        "choices": CHOICES,
        "default": UNTIL_SETTLED,
        "help": "when to run the frameworks' own profilers, which see inside XLA and the device: for each kind of step "
        f"from step 0 until two in a row compiled nothing ({UNTIL_SETTLED}, the default), always, or never",
    },
    "--stacks": {
        "action": "store_true",
        "help": "also have py-spy sample the Python code of every thread, to name what no hook sees",
    },
    "--ir": {
        "action": "store_true",
        "help": "keep the programs of every compile: jaxpr, StableHLO and optimized HLO, FX graphs and "
        "Inductor's code (see coldstep report --ir, coldstep compare --ir)",
    },
    "--no-live": _without(
        "live",
        "while the script runs, print nothing on stderr: no long compiles, no compiles after ready(), no forecasts",
    ),
    "--no-infer": _without("infer", "if the script marks no steps, do not infer them from what it repeats"),
    "--no-children": _without("children", "do not trace the processes that the script starts"),
    "--no-waits": _without("waits", "do not record what the script, and each process that it starts, waits for"),
    "--label": _repeated(
        "NAME=VALUE",
        _label,
        "label the trace (team=search), in addition to the labels from the variables of CI, "
        "SLURM, Kubernetes and torchrun",
    ),
    "--ready-after": {
        "metavar": "N",
        "type": _steps,
        "help": "call coldstep.ready() for the script after N steps of any kind. The report then shows later "
        "compiles, and the calls that the warm-up lacks; coldstep check --ready fails on later compiles",
    },
}
"""The settings that argparse takes of each, by its names."""
_FLAGS = ("-h", "--help", *(name for name, row in _OPTIONS.items() if "type" not in row and "action" in row))
_VALUES = [names.split()[-1] for names in _OPTIONS if names not in _FLAGS]


def _given(options: argparse.Namespace, target: list[str]) -> list[str]:
    """The options that were given and are for a script alone."""
    defaults = vars(_parse(target)[0])
    return [name for name, value in vars(options).items() if name not in _OF_COMMANDS and value != defaults[name]]


def _command_of(name: str) -> str | None:
    """The program to run as it is; None of a script, which runs in this process."""
    if name.endswith(".py"):
        return None
    if os.sep not in name:
        import shutil  # not in the process of a script

        return shutil.which(name)
    with contextlib.suppress(OSError), open(name, "rb") as file:
        is_program = os.access(name, os.X_OK) and not _may_be_python(name, file.read(_BEGIN_BYTES))
        return name if is_program else None
    return None


def _check(name: str, is_module: bool) -> str | None:
    """Refuse what cannot be run, before anything is written. Returns the file that will be run, where it is known."""
    if is_module:
        _put_first(os.getcwd())
        return _module_file(name)
    with contextlib.suppress(zipimport.ZipImportError):
        if os.path.isdir(name) or zipimport.zipimporter(name):
            fail(f"cannot run {name}: coldstep run takes a script or -m module")
    with or_fail(f"cannot run {name}"), open(name, "rb") as file:
        begin = file.read(_BEGIN_BYTES)
    if not _may_be_python(name, begin):
        fail(f"cannot run {name}: it is no Python script; give it to its shell, as in coldstep run bash {name}")
    return name


def _may_be_python(name: str, begin: bytes) -> bool:
    """Whether a file that begins so may be run: what another program is named for may not."""
    if begin.startswith(b"\x7fELF") or name.endswith(_SHELLS):
        return False
    return name.endswith(".py") or not begin.startswith(b"#!") or b"py" in begin.partition(b"\n")[0]


def _module_file(name: str) -> str | None:
    """The file that `-m name` will run, found without an import: imports are for the trace to see."""
    parts = name.split(".")
    spec: ModuleSpec | None = None
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(parts[0])
    if spec is None:
        fail(f"no module named {parts[0]}")
    with contextlib.suppress(AttributeError, ImportError, KeyError):  # not every package tells before it is imported
        for end in range(2, len(parts) + 1):
            spec = _within(spec, ".".join(parts[:end]))
        if spec is not None and spec.submodule_search_locations is not None:
            spec = _within(spec, f"{name}.__main__")
            if spec is None:
                fail(f"cannot run {name}: it is a package without a __main__")
        return spec.origin if spec is not None and spec.has_location else None
    return None


def _within(package: ModuleSpec | None, name: str) -> ModuleSpec | None:
    places = package.submodule_search_locations if package is not None else None
    found = (finder.find_spec(name, places) for finder in sys.meta_path if places is not None)
    return next((spec for spec in found if spec is not None), None)


# --- running ------------------------------------------------------------------------------------------------------


def _execute(name: str, arguments: list[str], is_module: bool) -> None:
    """Become `python name arguments…`: sys.argv, sys.path[0] and a `__main__` as Python makes them, then the code."""
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={})
    code = _prepare_module(main, name, arguments) if is_module else _prepare_script(main, name, arguments)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _prepare_script(main: ModuleType, name: str, arguments: list[str]) -> Any:
    file = os.path.join(os.getcwd(), name)
    sys.argv = [name, *arguments]
    _put_first(os.path.dirname(os.path.realpath(name)))
    loader = SourceFileLoader("__main__", file)
    main.__dict__.update(__file__=file, __cached__=None, __loader__=loader, __package__=None, __spec__=None)
    with io.open_code(file) as opened:
        return _compile(opened.read(), file)


def _prepare_module(main: ModuleType, name: str, arguments: list[str]) -> Any:
    sys.argv = ["-m", *arguments]
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or spec.loader is None:
        fail(f"no module named {name} that could be run")
    loader: Any = spec.loader
    code = loader.get_code(spec.name)
    if code is None:
        fail(f"the module {name} has no Python code to run")
    sys.argv[0] = spec.origin or name
    main.__dict__.update(
        __file__=spec.origin, __cached__=spec.cached, __loader__=spec.loader, __package__=spec.parent, __spec__=spec
    )
    source = loader.get_source(spec.name) if marking.wanted("__main__") else None
    return code if source is None else _compile(source, code.co_filename)


def _compile(source: bytes | str, file: str) -> Any:
    names = marking.wanted("__main__")
    return marking.compile_marked(source, file, names) if names else compile(source, file, "exec", dont_inherit=True)


def _put_first(folder: str) -> None:
    """Make `folder` sys.path[0], in the place of the folder that coldstep's own script was found in."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _without_our_frames(hook: Any) -> Any:
    """`hook`, shown an uncaught exception as if Python had run the script."""

    def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        traceback = _frames_of_script(traceback)
        hook(kind, error.with_traceback(traceback), traceback)

    return excepthook


def _frames_of_script(traceback: TracebackType | None) -> TracebackType | None:
    frames: list[TracebackType] = []
    while traceback is not None:
        if traceback.tb_frame.f_code is not _execute.__code__:
            frames.append(traceback)
        else:
            frames.clear()
        traceback = traceback.tb_next
    own = (__file__, marking.__file__)
    frames = [frame for frame in frames if frame.tb_frame.f_code.co_filename not in own]
    for index, frame in enumerate(frames):
        frame.tb_next = frames[index + 1] if index + 1 < len(frames) else None
    return frames[0] if frames else None


# --- the end ------------------------------------------------------------------------------------------------------


def _end(recording: Block, run: Session, shown: str, error: BaseException | None) -> None:
    """End the trace; then the line on stderr, where it is and what it says, and whatever of --step came to nothing."""
    recording.__exit__(type(error) if error else None, error, None)
    say(f"{own_name(shown) if run.displaced else shown}: {with_parts(run.options.job, run.headline)}")
    if (line := untried()) is not None:
        say(line)
    if run.partial:
        names = ", ".join(run.partial)
        say(f"not wholly attached: {names}; coldstep doctor shows the missing hooks, and what to do")
    for file in dict.fromkeys(run.joined):
        if os.path.exists(file) and not os.path.samefile(file, run.path):
            say(plain(f"{os.path.relpath(file)} is of an earlier run: the script's own trace() joined this one"))
    for line in marking.unrecorded(run.step_names):
        say(line)


def _interrupted_again() -> None:
    """Remind Python that Ctrl-C ended the script: it forgets when text is executed, as every dataclass does.

    CPython kills itself by SIGINT at its end if `_PyRuntime.unhandled_keyboard_interrupt` is set, which the last text
    to be executed decides (`run_eval_code_obj` in Python/pythonrun.c).
    """
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")
