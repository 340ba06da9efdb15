"""Sees what may be the steps of a program that marks none: which of it they are is found when the trace is read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, Protocol

from coldstep.collector import SessionSink, own_time
from coldstep.vocabulary import PACKAGES


class Source(Protocol):
    """Sees calls of one framework, or hears of steps."""

    def forked(self) -> None:
        """In a fork's child: forget the candidates of its parent, and who called them."""

    def stop(self) -> list[str]:
        """See no more; what stays, in words."""


class Steps:
    """The collector `steps`."""

    name = "steps"
    infers_steps = True

    def __init__(self) -> None:
        self._missing: list[str] = []
        self._left: list[str] = []
        self._sources: list[Source] = []
        self._lasting: list[Source] = []
        """Those that see what they see where the program marks its steps, too."""
        self._ends: list[Callable[[], None]] = []
        """To be called where the program ends, and not just the watching."""
        self._unseen_trainers = [True]

    def start(self, sink: SessionSink) -> None:
        """Attach to each framework when it is there."""
        self._sink = sink
        self._failed = sink.guarded(self.name, _fail)
        sink.when_imported("jax", partial(self._load, self._see_jax))
        sink.when_imported("torch", partial(self._load, self._see_torch))
        for framework in sorted(PACKAGES):  # one of which each trainer imports
            sink.when_imported(framework, partial(self._load, self._see_trainers))
        sink.on_first_mark(self._leave)
        self._tell()

    def _load(self, see: Callable[[], None], _: object) -> None:
        """Every trace loads this module, and what one framework needs is loaded with it."""
        if not self._sink.infers:
            return
        with own_time(self._sink.emit, f"load the collector {self.name}"):
            see()

    def _see_jax(self) -> None:
        from coldstep_collectors.steps.call_sites import CallSites
        from coldstep_collectors.steps.jax_calls import JaxCalls
        from coldstep_collectors.steps.transformed import Transformed

        sites = CallSites(self._sink)
        transformed = Transformed(sites, self._failed)
        self._ends.append(transformed.end)
        self._lasting.append(transformed)
        self._attach({"jax": transformed.attach})  # before the other, which leaves first
        jax = JaxCalls(sites, self._failed)
        self._sources.append(jax)
        self._attach({"jax": jax.attach})

    def _see_torch(self) -> None:
        from coldstep_collectors.steps.call_sites import CallSites
        from coldstep_collectors.steps.torch_calls import TorchCalls

        torch = TorchCalls(CallSites(self._sink), self._failed, compiled_before=not self._sink.whole_process)
        self._sources.append(torch)
        if self._sink.whole_process:
            self._ends.append(torch.end)
        self._attach(
            {
                "torch": torch.attach,
                "torch._dynamo.eval_frame": torch.attach_to_contexts,
                "torch._dynamo": torch.dynamo_imported,
                "torch._dynamo.aot_compile": torch.attach_to_ahead,
                "torch.amp.grad_scaler": torch.attach_to_scaler,
            }
        )

    def _see_trainers(self) -> None:
        try:
            self._unseen_trainers.pop()  # once: two frameworks may be imported on two threads at a time
        except IndexError:
            return
        from coldstep_collectors.steps._private.trainers import TELLING
        from coldstep_collectors.steps.announced import ToldSteps
        from coldstep_collectors.steps.call_sites import CallSites

        announced = ToldSteps(CallSites(self._sink), self._failed)
        self._sources.append(announced)
        self._attach({name: partial(announced.attach, name) for name in TELLING})

    def _attach(self, attaching: dict[str, Callable[[Any], list[str]]]) -> None:
        for module, attach in attaching.items():
            self._sink.when_imported(module, self._attaching(attach))

    def forked(self) -> None:
        """In a fork's child: its steps are its own."""
        for source in (*self._sources, *self._lasting):
            source.forked()

    def stop(self) -> list[str]:
        """Put back every hook that is still ours."""
        for end in self._ends:
            end()
        self._leave()
        return self._left + [words for source in self._lasting for words in source.stop()]

    def _attaching(self, attach: Callable[[Any], list[str]]) -> Callable[[Any], None]:
        def attached(module: Any) -> None:
            if self._sink.infers and (missing := attach(module)):
                self._missing += missing
                self._tell()

        return attached

    def _tell(self) -> None:
        self._sink.state(self.name, "partial" if self._missing else "attached", None, self._missing)

    def _leave(self) -> None:
        """Nothing is to be inferred any more: the program marks its steps, or the trace has ended."""
        self._left += [words for source in self._sources for words in source.stop()]


def _fail(error: Exception) -> NoReturn:
    raise error
