"""The kinds of tracks of a timeline, in the order in which Perfetto shows them, with those of other collectors."""

from __future__ import annotations

from coldstep.named_tuple import NamedTuple


class Track(NamedTuple):
    """What a track shows, and its name in the timeline."""

    kind: str
    """Its name in a trace."""
    words: str
    """Its name for people."""


TRACKS = (
    Track("steps", "Steps"),
    Track("phases", "Step phases"),
    Track("waits", "Waits"),
    Track("findings", "Findings"),
    Track("jax", "JAX"),
    Track("xla", "XLA compiler"),
    Track("torch", "PyTorch"),
    Track("workers", "Worker processes"),
    Track("outside", "Outside the compilers"),
    Track("torch_xla", "torch_xla"),
    Track("tensorflow", "TensorFlow"),
    Track("ir", "Programs"),
    Track("execute", "Execution"),
    Track("device", "Device"),
    Track("annotations", "Annotations"),
    Track("imports", "Imports"),
    Track("gc", "Garbage collection"),
    Track("stacks", "Python stacks"),
    Track("counters", "Counters"),
    Track("coldstep", "coldstep"),
)
_BELOW = "ir"  # those of other collectors come before this one


def placed(tracks: dict[str, Track], more: dict[str, Track]) -> dict[str, Track]:
    """The tracks with those of other collectors, in their place."""
    kinds = list(tracks)
    at = kinds.index(_BELOW) if _BELOW in tracks else len(kinds)
    return {kind: tracks[kind] for kind in kinds[:at]} | more | {kind: tracks[kind] for kind in kinds[at:]}
