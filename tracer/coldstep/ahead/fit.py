"""Whether a training step fits into memory, before anything is allocated: `coldstep.would_fit`, and its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from coldstep._util.figures import size
from coldstep._util.slotted import field, slotted
from coldstep.ahead.plugins import reach
from coldstep.errors import first_line, our_errors

LEFT_BY_COMPILING = "what compiling leaves"
"""Of a program that is compiled for the memory it is compiled in: machine code, and what the compiler keeps."""
MEASURED = (
    "What compiling leaves is no analysis: it is how much more this process held when the step had been compiled for "
    "this answer, which is less where it had compiled before."
)
"""A note on that."""
_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
          "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}  # fmt: skip
# coldstep: "32GiB"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B|B|)$")


@slotted
class Held:
    """What a part of the memory is held for, when most is held."""

    what: str
    """Parameters, optimizer state, gradients, activations saved for the backward …"""
    bytes: int
    """How much."""
    within: str | None = None
    """The row that this one is a part of; such parts are as the program is written, before the compiler fuses."""


@slotted
class Remedy:
    """A change that takes less memory, tried without allocating any."""

    name: str
    """donation, rematerialisation, batch, dtype"""
    change: str
    """What to change, in words."""
    peak_bytes: int | None
    """The peak with it; None where it could not be tried."""
    fits: bool | None
    """Whether that fits; None where it could not be tried, or no limit is known."""
    why: str = ""
    """Why it could not be tried."""


class NotTried(ValueError):
    """A change that this step has no place for; its text is the reason."""


def half(length: int | None, of: str) -> int:
    """Half of a batch whose arrays all begin with a dimension of that length. Raises NotTried where they do not, or no
    half is left."""
    if length is None:
        raise NotTried(f"{of} do not begin with one dimension that all share")
    if length < 2:
        raise NotTried(f"the first dimension of {of} is {length}")
    return length // 2


@slotted
class Fit:
    """The memory that a step will hold. All sizes are bytes. Its `str()` is a report."""

    stack: str
    """jax, dynamo or torch_xla, as in a forecast"""
    argument_bytes: int
    """What stands before a steady step: parameters, optimizer state, the batch."""
    output_bytes: int
    """What it returns; of it, `reused_bytes` lie where donated arguments lay."""
    reused_bytes: int
    """Results in the place of arguments."""
    temp_bytes: int
    """What it holds besides, at most: gradients, activations, workspace."""
    peak_bytes: int
    """The most that is held at once: arguments, results that are beside these, temporaries, what compiling leaves."""
    memory_bytes: int | None
    """What there is; None where that is not known."""
    compiler_bytes: int = 0
    """What compiling leaves in the memory that the program runs in, as measured in this process; 0 on an accelerator,
    which has its own, where nothing is compiled, and where this step had been compiled already."""
    held: list[Held] = field(default_factory=list)
    """By what the peak is held, the largest first."""
    remedies: list[Remedy] = field(default_factory=list)
    """What would make it fit, where it does not; the smallest peak first."""
    notes: list[str] = field(default_factory=list)
    """What a reader must know of these figures, a sentence each."""

    @property
    def fits(self) -> bool | None:
        """Whether the peak is within the memory; None where that is not known."""
        return None if self.memory_bytes is None else self.peak_bytes <= self.memory_bytes

    def tried(self, name: str, change: str, peak: Callable[[], int]) -> Remedy:
        """A change to the step with which its peak is `peak()`; its error is the reason the change was not tried."""
        try:
            peak_bytes = peak()
        except NotTried as error:
            return Remedy(name, change, None, None, str(error))
        except our_errors() as error:  # whatever the user's step raises of another type or size
            return Remedy(name, change, None, None, first_line(error))
        return Remedy(name, change, peak_bytes, None if self.memory_bytes is None else peak_bytes <= self.memory_bytes)

    def propose(self, remedies: Iterable[Remedy]) -> None:
        """Put these in order, the smallest peak first; what was not tried comes last."""
        self.remedies = sorted(remedies, key=lambda row: (row.peak_bytes is None, row.peak_bytes or 0))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        verdict = {True: "fits into", False: "does not fit into", None: "needs"}[self.fits]
        limit = f" {size(self.memory_bytes)}" if self.memory_bytes is not None else ""
        peak = size(self.peak_bytes)
        yield f"{verdict}{limit}: {peak} at most" if limit else f"needs {peak} at most"
        reused = f" ({size(self.reused_bytes)} in place of arguments)" if self.reused_bytes else ""
        left = f", {LEFT_BY_COMPILING} {size(self.compiler_bytes)}" if self.compiler_bytes else ""
        results = f"{size(self.output_bytes)}{reused}"
        yield f"  arguments {size(self.argument_bytes)}, results {results}, temporaries {size(self.temp_bytes)}{left}"
        for row in self.held:
            yield f"  {'  of which ' if row.within else ''}{row.what} {size(row.bytes)}"
        for remedy in self.remedies:
            if remedy.peak_bytes is None:
                yield f"  {remedy.name}: {remedy.change}: not tried, {remedy.why}"
            else:
                yield f"  {remedy.name}: {remedy.change}: {size(remedy.peak_bytes)}{', fits' if remedy.fits else ''}"
        yield from (f"  {note}" for note in self.notes)


def would_fit(fn: Callable[..., Any], *args: Any, memory: float | str | None = None) -> Fit:
    """Predict the memory that a call of the training step `fn(*args)` will hold. Nothing runs on a device or is
    allocated.

    The step's Python code runs on stand-ins for its arrays: in JAX each time that it is traced (once, and once for each
    remedy), in PyTorch and torch_xla twice, and twice more for each of up to three remedies. Afterwards coldstep
    restores the lists, dicts, sets and attributes that the step reaches (four levels deep), the globals and captured
    variables that it names, and the random states of Python and NumPy. It cannot undo what the step prints, or writes
    to files or into NumPy arrays.

    JAX: `fn` is a function, jitted or not; arrays among `args` may be given as `jax.ShapeDtypeStruct`.

    PyTorch: `fn` runs forward, backward and optimizer. Modules, optimizers and tensors may be on the device "meta".
    They may be among `args`, or `fn` may close over them. They stay unchanged.

    torch_xla: the same, on its device. Call `would_fit` before the process's first sync; it makes no sync itself. A
    step that syncs or reads a value in the middle cannot be judged.

    `memory` is a number of bytes, or a text such as "32GiB". The default is the memory of the device or the machine.

    Raises LookupError if coldstep's collectors are not installed, and ValueError if it cannot judge the step.
    """
    fit: Fit = reach("would_fit")(fn, args, limit(memory))
    return fit


def limit(memory: float | str | None) -> int | None:
    """A size as a person gives it, in bytes. Raises ValueError."""
    if memory is None:
        return None
    match = _SIZE.match(memory.strip()) if isinstance(memory, str) else None
    number = float(match[1]) * _UNITS[match[2]] if match else memory
    if isinstance(number, (str, bool)) or not 0 < number < float("inf"):
        raise ValueError(f"memory={memory!r} is no size such as '32GiB'")
    return int(number)
