"""What vLLM's workers are given to answer (`--worker-extension-cls marks.Marks`): `ready()`, and what they counted."""

from __future__ import annotations

import os

import coldstep


class Marks:
    """Methods for `LLM.collective_rpc`; names that a worker of vLLM's does not have."""

    def coldstep_ready(self) -> None:
        """From here on, what a request compiles is one too many."""
        coldstep.ready("serving")

    def graphs_counted(self) -> dict[str, int]:
        """What Dynamo and vLLM count themselves: graphs, and functions compiled ahead."""
        from torch._dynamo.utils import counters
        from vllm.compilation.counter import compilation_counter

        graphs = counters["stats"].get("unique_graphs", 0)
        return {"pid": os.getpid(), "graphs": graphs, "ahead": compilation_counter.num_aot_compiles}
