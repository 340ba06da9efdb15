"""Sees what may be the steps of a program that marks none: which of it they are is found when the trace is read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from coldstep.collector import Sink
from coldstep_collectors._private.trainers import TELLING
from coldstep_collectors.call_sites import CallSites
from coldstep_collectors.jax_calls import JaxCalls
from coldstep_collectors.told_steps import ToldSteps
from coldstep_collectors.torch_calls import TorchCalls


class Steps:
    """The collector `steps`."""

    name = "steps"
    infers_steps = True

    def __init__(self) -> None:
        self._missing: list[str] = []
        self._left: list[str] = []

    def start(self, sink: Sink) -> None:
        """Attach to each framework when it is there."""
        self._sink = sink
        sites = CallSites(sink)
        failed = sink.guarded(self.name, _fail)
        self._jax, self._torch = JaxCalls(sites, failed), TorchCalls(sites, failed)
        self._told = ToldSteps(sites, failed)
        attaching: dict[str, Callable[[Any], list[str]]] = {
            "jax": self._jax.attach,
            "torch": self._torch.attach,
            "torch._dynamo.eval_frame": self._torch.attach_to_contexts,
            "torch._dynamo": self._torch.dynamo_imported,
            "torch.amp.grad_scaler": self._torch.attach_to_scaler,
            **{name: partial(self._told.attach, name) for name in TELLING},
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
        self._left += [*self._jax.stop(), *self._torch.stop(), *self._told.stop()]


def _fail(error: Exception) -> NoReturn:
    raise error
