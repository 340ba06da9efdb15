"""What launchers, CI systems, terminals and people do to the lines of a log: each a function from its text to bytes.

A dressing takes nothing away. Where the rows of a specimen differ from those of the bare file, `EXCUSES` says why.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator

Dress = Callable[[str], bytes]
DRESSINGS: dict[str, Dress] = {}

STAMP = re.compile(
    r"^(?:[VIWEF]\d{4} \S+ \d+ \S+\] |\[\d{4}-\S+ \S+\] (?:\[\d+/\d+\S*\] )?torch\.\S+: \[\w+\] )", re.MULTILINE
)
OF_JAX = re.compile(r"^WARNING:\d{4}-\S+ [\d:,]+:[\w.]+:\d+: ")
"""What the handler of JAX_LOGGING_LEVEL puts before a message."""
BAR = " 10%|█         | 1/10 [00:00<00:01,  5.00it/s]"


def dressing(function: Dress) -> Dress:
    DRESSINGS[function.__name__] = function
    return function


def each_line(name: str, form: Callable[[int, str], str]) -> None:
    """A dressing that does the same to every line."""

    def dress(text: str) -> bytes:
        return "".join(f"{form(number, line)}\n" for number, line in enumerate(text.splitlines())).encode()

    DRESSINGS[name] = dress


def time(number: int) -> str:
    return f"2026-11-21T07:{47 + number // 600:02}:{number // 10 % 60:02}.{number % 10}23456789Z"


def heads(line: str) -> bool:
    """Whether a logging handler of Python's would put its words before this line, as the first of a message."""
    return (
        re.match(rf"(?:{OF_JAX.pattern[1:]}|TRACING|Finished|Compiling|[VIWEF]\d{{4}} |\[\d{{4}}-)", line) is not None
    )


each_line("actions", lambda n, line: f"{time(n)} {line}")
each_line("gh_run_view", lambda n, line: f"train (3.11)\tRun python train.py\t{time(n)} {line}")
each_line("kubernetes_cri", lambda n, line: f"{time(n)} stderr F {line}")
each_line("kubectl_prefix", lambda n, line: f"[pod/trainer-0/main] {line}")
each_line("compose", lambda n, line: f"trainer-0  | {line}")
each_line("journald", lambda n, line: f"Nov 21 07:47:53 node1 python[71]: {line}")
each_line("jenkins", lambda n, line: f"[{time(n)[:23]}Z] {line}")
each_line("azure", lambda n, line: f"{time(n)} ##[warning]{line}")
each_line("buildkit", lambda n, line: f"#12 {n}.563 {line}")
each_line("srun_label", lambda n, line: f"3: {line}")
each_line("mpirun", lambda n, line: f"[1,3]<stderr>:{line}")
each_line("torchrun", lambda n, line: f"[default3]:[rank3]:{line}")
each_line("pdsh", lambda n, line: f"node3: {line}")
each_line("vllm", lambda n, line: f"\x1b[1;36m(EngineCore pid=71)\x1b[0;0m {line}")
each_line("ray", lambda n, line: f"\x1b[36m(train_fn pid=71, ip=10.0.0.2)\x1b[0m {line}")
each_line("ray_repeated", lambda n, line: f"(train_fn pid=71) {line}\x1b[32m [repeated 7x across cluster]\x1b[0m")
each_line("escape_lost", lambda n, line: f"[36m(train_fn pid=71)[0m {line}")
each_line("quoted", lambda n, line: f"> {line}")
each_line("commented", lambda n, line: f"# {line}")
each_line("numbered_by_grep", lambda n, line: f"{n + 17}:{line}")
each_line("coloured", lambda n, line: f"\x1b[33m{line}\x1b[0m")
each_line("carriage_returns", lambda n, line: f"{line}\r")
each_line("two_carriage_returns", lambda n, line: f"{line}\r\r")
each_line("progress_bar", lambda n, line: f"{BAR}\r{line}")
each_line("empty_between", lambda n, line: f"{line}\n")
each_line("html", lambda n, line: html.escape(line).replace("&#x27;", "&#39;"))
each_line("trailing_blanks", lambda n, line: f"{line:<160}")
each_line("docker", lambda n, line: json.dumps({"log": f"{line}\n", "stream": "stderr", "time": time(n)}))
each_line("json", lambda n, line: json.dumps({"timestamp": time(n), "level": "info", "message": f"{line}\r"}))
each_line("json_in_json", lambda n, line: json.dumps({"log": json.dumps({"msg": line, "pid": 71}) + "\n"}))
each_line("json_of_a_cloud", lambda n, line: json.dumps({"jsonPayload": {"message": line}, "timestamp": time(n)}))
each_line("logfmt", lambda n, line: f"time={time(n)} level=info msg={json.dumps(line)}")
each_line("repr", lambda n, line: repr(f"{line}\n"))
each_line("repr_of_bytes", lambda n, line: "stderr: " + repr(f"{line}\n".encode()))
each_line("logger_before", lambda n, line: f"WARNING:jax._src.dispatch:204: {line}" if heads(line) else line)
each_line("asctime_before", lambda n, line: f"2026-11-21 07:47:53,{n:03} - root - WARNING - {line}")
each_line("loguru", lambda n, line: f"2026-11-21 07:47:53.{n:03} | WARNING  | jax._src.dispatch:204 - {line}")
each_line("absl", lambda n, line: line if STAMP.match(line) else f"W1121 07:47:53.000{n:03} 71 dispatch.py:204] {line}")
each_line("logger_behind", lambda n, line: f"{line} [jax._src.dispatch]")
each_line("rich", lambda n, line: f"[07:47:53] WARNING  {line}    dispatch.py:204")


@dressing
def utf16(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode("utf-16")


@dressing
def utf16_big_endian(text: str) -> bytes:
    return f"\ufeff{text}".encode("utf-16-be")


@dressing
def utf8_mark(text: str) -> bytes:
    return text.encode("utf-8-sig")


@dressing
def repr_of_all(text: str) -> bytes:
    return f"CompletedProcess(returncode=0, stderr={text.encode()!r})\n".encode()


@dressing
def windows(text: str) -> bytes:
    """As PyTorch prints its own files there."""

    def turned(stamp: re.Match[str]) -> str:
        of_file = re.sub(r"(?<=\d )(?=torch/)", r"Lib\\site-packages\\", stamp[0])
        return of_file.replace("/", "\\") if stamp[0][0] != "[" else stamp[0]

    return STAMP.sub(turned, text).replace("\n", "\r\n").encode()


@dressing
def no_stamp(text: str) -> bytes:
    return STAMP.sub("", text).encode()


@dressing
def source_only(text: str) -> bytes:
    return re.sub(r"^[VIWEF]\d{4} \S+ \d+ (\S+\] )", r".../\1", text, flags=re.MULTILINE).encode()


def wrapped(text: str, width: int, pad: bool = False) -> bytes:
    pieces = (line[at : at + width] for line in text.splitlines() for at in range(0, max(1, len(line)), width))
    return "".join(f"{piece:<{width if pad else 0}}\n" for piece in pieces).encode()


for columns in (80, 97, 120):
    DRESSINGS[f"wrapped_at_{columns}"] = lambda text, columns=columns: wrapped(text, columns)
    DRESSINGS[f"filled_to_{columns}"] = lambda text, columns=columns: wrapped(text, columns, pad=True)


def messages(text: str) -> Iterator[list[str]]:
    """The lines of each message that a handler of Python's writes at once."""
    found: list[str] = []
    for line in text.splitlines():
        stamp = STAMP.match(line)
        goes_on = bool(found) and (found[0].startswith(stamp[0]) if stamp is not None else not heads(line))
        if found and not goes_on:
            yield found
            found = []
        found.append(line)
    yield found


def two_handlers(text: str, *forms: str) -> bytes:
    """Each message twice: the handlers have one format each, before its first line. PyTorch's own has its stamp."""
    found: list[str] = []
    for number, message in enumerate(messages(text)):
        stamped = bool(STAMP.match(message[0]) or OF_JAX.match(message[0]))
        for form in (None, PYTHON_FORM) if stamped else forms:
            before = (form or "").format(ms=f"{number % 1000:03}", s=f"{number // 1000:02}")
            plain = [OF_JAX.sub("", STAMP.sub("", line)) for line in message] if form is not None else message
            found += [f"{before}{plain[0]}", *plain[1:]]
    return "".join(f"{line}\n" for line in found).encode()


JAX_FORM, PYTHON_FORM = "WARNING:2026-11-21 07:47:{s},{ms}:jax._src.dispatch:204: ", "WARNING:jax._src.dispatch:"
DRESSINGS["two_handlers"] = lambda text: two_handlers(text, JAX_FORM, PYTHON_FORM)
DRESSINGS["two_handlers_turned"] = lambda text: two_handlers(text, PYTHON_FORM, JAX_FORM)
DRESSINGS["two_handlers_one_bare"] = lambda text: two_handlers(text, "", PYTHON_FORM)


@dressing
def two_handlers_alike(text: str) -> bytes:
    found: list[str] = []
    for number, message in enumerate(messages(text)):
        own = STAMP.match(message[0]) or OF_JAX.match(message[0])
        before = "" if own else JAX_FORM.format(ms=f"{number % 1000:03}", s=f"{number // 1000:02}")
        found += 2 * [f"{before}{message[0]}", *message[1:]]
    return "".join(f"{line}\n" for line in found).encode()


@dressing
def pytest_sections(text: str) -> bytes:
    """What a failed test shows: the standard error, and the log of the same."""
    again = "".join(
        f"WARNING  jax._src.dispatch:dispatch.py:204 {OF_JAX.sub('', line)}\n" if heads(line) else f"{line}\n"
        for line in text.splitlines()
    )
    shown = f"{'-' * 30} Captured stderr call {'-' * 30}\n{text}{'-' * 30} Captured log call {'-' * 30}\n{again}"
    return f"{'_' * 30} test_step {'_' * 30}\n\n{shown}{'=' * 30} 1 failed {'=' * 30}\n".encode()


EXCUSES: dict[tuple[str, str], str] = {
    (r"torch_xla.*", r"two_handlers.*|pytest_sections"): "torch_xla prints its report itself: no handler writes it",
    (r"torch-.*", r"absl"): "PyTorch does not log by absl",
    (
        r"torch-2\.1\..*-shape",
        r"two_handlers_alike",
    ): "a warning of Python's own, which no handler writes, is written twice with the message before it",
    (
        r"torch-2\.[123]\..*-limit",
        r"two_handlers.*",
    ): "the numbers that only one of the handlers writes are in another line",
    (
        r".*",
        r"filled_to_\d+",
    ): "where all lines are filled with blanks, one that is cut at a blank looks as one that ends",
    (r"torch-2\.[12]\..*", r"wrapped_at_\d+"): "cut before a level in brackets, the rest looks as a line of its own",
    (r"torch-2\.[123]\..*", r"no_stamp"): "the words alone do not tell which compile they are about",
    (r"torch-2\..*-breaks", r"no_stamp"): "the warning of a value that is read is PyTorch's only by its stamp",
    (
        r"torch-.*-(?:full|failing|stance|suppressed|dynamic)",
        r"no_stamp|two_handlers.*|pytest_sections",
    ): "a traceback, and what became dynamic, are PyTorch's only by their stamp, or were printed by no handler",
}
"""By specimen and dressing, each a regular expression: why the rows may differ."""


def excuse(specimen: str, dressing: str) -> str | None:
    return next(
        (why for (which, how), why in EXCUSES.items() if re.fullmatch(which, specimen) and re.fullmatch(how, dressing)),
        None,
    )
