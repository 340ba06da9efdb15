"""Finds the steps of a process that marks none, and puts them where those that are marked would be."""

from __future__ import annotations

from typing import cast

from coldstep.analysis.steps.inference import Made, Repeated, choose
from coldstep.candidates import Kind
from coldstep.errors import TraceError
from coldstep.events import NOTHING, Args
from coldstep.loading.inferred_runs import put
from coldstep.loading.owners import ledger_of_owners
from coldstep.loading.row_types import Slice, StepRow
from coldstep.loading.slices import Locations, Rows
from coldstep.model import Inference, InferredBy
from coldstep.pftrace import layout
from coldstep.rows.intervals import Alike

_SYNC = InferredBy("sync", "torch_xla.sync", None)


def infer(rows: Rows, locations: Locations, asked: str | None) -> Inference | None:
    """Where a process marks no steps: what its steps are inferred from; they are put among `rows.steps`, and the
    time of their threads into `rows.ledger`. None where it marks them, or was not watched for that.

    Raises TraceError where nothing of the kind `asked` for was seen.
    """
    if rows.is_marked:
        if asked is not None:
            raise TraceError("its steps are marked by the program: --step chooses among those that are inferred")
        return None
    synced: list[StepRow | Alike] = [*rows.steps, *rows.folded]
    for step in synced:
        step.by = _SYNC
    if not rows.candidates and "steps" not in rows.run.collectors and asked is None:
        return None
    candidates = [_repeated(id_, args, locations) for id_, args in rows.candidates.items()]
    try:
        choice = choose(candidates, _made(rows), synced=bool(synced), asked=asked)
    except LookupError as error:
        raise TraceError(str(error.args[0])) from error
    if choice.stories:
        put(rows, choice.stories)
        rows.ledger = ledger_of_owners(rows)
    steps = {row.name: row.by for row in choice.stories or synced if row.by is not None}
    return Inference(
        process=rows.process,
        steps=steps,
        also=choice.also,
        notes=choice.notes,
        why=choice.why if not steps else None,
        ask=None if steps else _to_ask_for(rows, locations),
    )


def _repeated(id_: str, args: Args, locations: Locations) -> Repeated:
    fed = args.get("fed")
    return Repeated(
        id=id_,
        kind=cast(Kind, str(args.get("kind", "call"))),
        function=str(args.get("function", "")),
        name=str(args.get("name") or ""),
        place=locations.read(args.get("location")),
        tid=int(args.get("tid", 0)),
        calls=args["calls"].in_order(),
        gradients=bool(args["gradients"]) if "gradients" in args else None,
        loop=bool(args.get("loop")),
        instance=int(args.get("instance", 0)),
        looked=int(args.get("looked", 0)),
        fed={} if fed in (None, NOTHING) else {str(name): int(calls) for name, calls in fed.items()},
    )


def _made(rows: Rows) -> list[Made]:
    """What compiled, each stretch of it, and where coldstep began or ended a profiler's session."""
    made: list[Made] = []
    origins: dict[str, str] = {}
    for piece in rows.slices:
        if piece.category == layout.COMPILE:
            origin = origins.setdefault(str(piece.args.get("compile")), str(piece.args.get("origin", "user")))
            backward = piece.args.get("part") == "backward"
            made.append(Made(piece.track.tid, piece.start, piece.end, origin == "user", backward))
        elif piece.track.kind == "coldstep" and piece.name == layout.CLOCK:
            made.append(Made(piece.track.tid, piece.start, piece.end, is_users=False, is_backward=False))
    return made


def _to_ask_for(rows: Rows, locations: Locations) -> str | None:
    """The function of the user's that took longest to compile, as --step takes it."""
    longest: Slice | None = None
    for piece in rows.slices:
        if piece.category != layout.COMPILE or piece.args.get("origin", "user") != "user":
            continue
        if longest is None or piece.end - piece.start > longest.end - longest.start:
            longest = piece
    return _as_step_takes_it(rows, locations, longest) if longest is not None else None


def _as_step_takes_it(rows: Rows, locations: Locations, compile: Slice) -> str | None:
    """A compile's function, where `coldstep run --step` takes it: no local function, and none that others call, too."""
    place, function = locations.read(compile.args.get("location")), str(compile.args.get("function", ""))
    is_local = "<locals>" in str(compile.args.get("key"))
    if place is None or is_local or "-packages/" in place.file:
        return None
    script = next((word for word in rows.run.command if word.endswith(".py")), "")
    is_script = place.file.rpartition("/")[2] == script.rpartition("/")[2]
    module = str(compile.args.get("module") or ("__main__" if is_script else ""))
    return f"{module}:{function}" if all(map(str.isidentifier, [*module.split("."), *function.split(".")])) else None
