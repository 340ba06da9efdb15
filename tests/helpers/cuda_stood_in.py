"""Has PyTorch's trees of CUDA graphs work on a CPU: they decide what is recorded and replayed, CUDA is stood in for.

A graph that is recorded or replayed here is called, so that the numbers are right. Imported by the programs of tests,
before they compile anything with mode="reduce-overhead".
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from typing import Any

import torch
from torch._inductor import compile_fx, cudagraph_trees, cudagraph_utils, output_code

OUTPUTS_LIVE = False
"""Whether the program keeps what a graph returned: what is called next is then recorded as its child."""


class _Nothing:
    """What streams, pools, devices and graphs of CUDA are here."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def wait_stream(self, _: Any) -> None: ...


class _WarmUp(cudagraph_trees.CUDAWarmupNode):
    def run(self, new_inputs: Any) -> Any:
        out = self.wrapped_function.model(new_inputs)
        self.outputs_weakrefs = self.tensor_weakrefs = [None for _ in out]
        return out


_NODE = inspect.signature(cudagraph_trees.CUDAGraphNode.__init__)


class _Recorded(cudagraph_trees.CUDAGraphNode):
    def __init__(self, function: Any, id: Any, parent: Any, inputs: Any, *rest: Any) -> None:
        given = _NODE.bind(self, function, id, parent, inputs, *rest).arguments
        mode, compile_id = given["mode"], given["compile_id"]
        self.wrapped_function, self.id, self.stack_traces = function, id, given["stack_traces"]
        self._parent = None if parent is None else lambda: parent
        self.children = defaultdict(list)
        self.live_indices_after_graph = self.cudagraph_managed_idxs = []
        self._is_forward = mode is not cudagraph_trees.CompilationMode.BACKWARD
        self._addresses = self._parameters(inputs)
        with cudagraph_trees.dynamo_timed_cudagraph("CUDAGraphNode.record", compile_id, mode):
            self.recording_outputs = function.model(inputs)
        self.outputs_weakrefs = self.tensor_weakrefs = [None for _ in self.recording_outputs]

    def _parameters(self, inputs: Any) -> list[int]:
        # what a backward has from its forward would lie still on a GPU
        return [inputs[i].data_ptr() for i in self.wrapped_function.static_input_idxs if self._is_forward]

    def check_invariants(self, inputs: Any) -> Any:
        same = self._parameters(inputs) == self._addresses
        status = cudagraph_utils.CheckInvariantStatus
        return (status.SUCCESS if same else status.StaticInputIdxMismatch), str

    def run(self, new_inputs: Any) -> Any:
        return self.wrapped_function.model(new_inputs)

    def clear_path_state(self) -> None: ...

    def remove_path_cached_tensors(self) -> None: ...

    def all_outputs_are_dead(self) -> bool:
        return not OUTPUTS_LIVE


def _post_compile(_: Any, graph: Any, *__: Any) -> None:
    """What PyTorch does where nothing speaks against CUDA graphs, for a graph of no GPU's."""
    options, about = graph.fx_kwargs, graph.cudagraph_info
    graph.current_callable = compile_fx.cudagraphify(
        graph.current_callable,
        options["static_input_idxs"] or (),
        device_index=0,
        stack_traces=about.stack_traces,
        is_backward=options["is_backward"],
        is_inference=options["is_inference"],
        placeholders=about.placeholders,
        mutated_input_idxs=tuple(graph.mutated_input_idxs),
    )


for _name in ("device", "Stream", "CUDAGraph", "graph", "current_stream", "graph_pool_handle", "synchronize"):
    setattr(torch.cuda, _name, type(_name, (_Nothing,), {}))
cudagraph_trees.CUDAWarmupNode, cudagraph_trees.CUDAGraphNode = _WarmUp, _Recorded
cudagraph_trees.CUDAGraphTreeManager.apply_checkpoint_execution_state_in_allocator = lambda _: None
cudagraph_trees.CUDAGraphTreeManager._clone_current_path_live_user_visible_outputs = lambda _: None  # PyTorch 2.15
cudagraph_utils.check_lowering_disable_cudagraph = lambda _: None
output_code.cudagraph_post_compile = output_code.cudagraph_partition_post_compile = _post_compile
