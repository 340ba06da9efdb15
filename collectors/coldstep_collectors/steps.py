"""Sees what may be the steps of a program that marks none: which of it they are is found when the trace is read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, Protocol

from coldstep.collector import Sink


class Source(Protocol):
    """What sees calls of one framework, or is told of steps."""

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

    def start(self, sink: Sink) -> None:
        """Attach to each framework when it is there."""
        # here: every trace loads this module, and only those of `coldstep run` infer
        from coldstep_collectors._private.trainers import TELLING
        from coldstep_collectors.call_sites import CallSites
        from coldstep_collectors.jax_calls import JaxCalls
        from coldstep_collectors.told_steps import ToldSteps
        from coldstep_collectors.torch_calls import TorchCalls

        self._sink = sink
        sites = CallSites(sink)
        failed = sink.guarded(self.name, _fail)
        jax, torch, told = JaxCalls(sites, failed), TorchCalls(sites, failed), ToldSteps(sites, failed)
        self._sources = [jax, torch, told]
        attaching: dict[str, Callable[[Any], list[str]]] = {
            "jax": jax.attach,
            "torch": torch.attach,
            "torch._dynamo.eval_frame": torch.attach_to_contexts,
            "torch._dynamo": torch.dynamo_imported,
            "torch._dynamo.aot_compile": torch.attach_to_ahead,
            "torch.amp.grad_scaler": torch.attach_to_scaler,
            **{name: partial(told.attach, name) for name in TELLING},
        }
        for module, attach in attaching.items():
            sink.when_imported(module, self._attaching(attach))
        sink.on_first_mark(self._leave)
        self._tell()

    def stop(self) -> list[str]:
        """Put back every hook that is still ours."""
        self._leave()
        return self._left

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
