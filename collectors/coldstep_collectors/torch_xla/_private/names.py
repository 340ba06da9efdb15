"""The names that torch_xla's private modules have had since 2.6: each hook, its forms, the blind spot without it."""

from __future__ import annotations

from coldstep.blind_spots import Unseen
from coldstep_collectors.names import Form, Hook

NEWEST = "2.9"
"""The newest version that coldstep was held against, and the last of all."""

_CAUSES = Unseen("the inputs of graphs by name, and so what made a graph compile again")


def _of(name: str) -> Form:
    """The form of a function of torch_xla's binding."""
    return Form(f"torch_xla:_XLAC.{name}", versions="2.6-")


COUNTER = Hook("how many graphs were compiled", _of("_xla_counter_value"))
METRIC = Hook("when graphs were compiled, and for how long", _of("_xla_metric_data"))
WAIT = Hook("when the device is done", _of("_xla_wait_device_ops"))
TENSOR_ID = Hook(_CAUSES, _of("_xla_get_tensor_id"))
PENDING = Hook(_CAUSES, _of("_check_tensor_need_materialization"))
INPUTS = Hook(_CAUSES, _of("_get_tensors_xla_device_data_node"))
HLO = Hook(_CAUSES, _of("_get_xla_tensors_hlo"))
SYNC = Hook("syncs (this version of torch_xla marks its steps in another way)", _of("_xla_step_marker"))
FALLBACKS = Hook(
    Unseen("the operations that run on the CPU, having no kernel", "breaks"), _of("_get_executed_fallback_ops")
)
SEED_ID = Hook(Unseen("which input of a graph is the random seed"), _of("_get_seed_info_id"))
ENTRY = Hook(
    Unseen("whether a sync is the one before a function that was given to torch_xla.compile"),
    Form("torch_xla.torch_xla:compile", says=("_clear_pending_ops_before_compile",), versions="2.6-"),
)
COMPILE = Hook(
    Unseen("which function that was given to torch_xla.compile a sync belongs to"),
    Form("torch_xla.torch_xla:compile", says=("_compile",), versions="2.6-"),
)
LAZY_IR = Hook(Unseen("the text of lazy graphs"), _of("_get_xla_tensors_text"))
STABLEHLO = Hook(Unseen("StableHLO of lazy graphs"), _of("_get_stablehlo"))
EXTRACT = Hook(
    Unseen("torch.compile graphs that become XLA graphs", "compiles", "recompiles"),
    Form("torch_xla.core.dynamo_bridge:extract_compiled_graph", versions="2.6-"),
)

PLACEHOLDER = Hook(None, Form("torch_xla.core.xla_builder:create_placeholder_tensor", versions="2.6-"))
DONATE = Hook(None, _of("_set_buffer_donation"))
ALIASED = Hook(None, _of("_xla_set_enable_alias_with_buffer_donor_config"))
COMPILE_ONLY = Hook(None, _of("_xla_warm_up_cache"))
GRAPH_HASH = Hook(None, _of("_get_graph_hash"))

NEEDED = (COUNTER, METRIC, WAIT, SYNC)
"""Without one of these nothing is seen."""
EVIDENCE = (TENSOR_ID, PENDING, INPUTS, HLO)
"""These show the contents of a graph."""
FITTING = (PLACEHOLDER, DONATE, ALIASED, COMPILE_ONLY, GRAPH_HASH, SYNC, *EVIDENCE)
"""These show a program's memory, where `coldstep.would_fit` asks; a trace needs none of the first five."""
HOOKS = (*NEEDED, *EVIDENCE, FALLBACKS, SEED_ID, ENTRY, COMPILE, LAZY_IR, STABLEHLO)
"""All but those imported later."""

PERSISTENT = ("PersistentCacheMiss", "PersistentCacheDeserializeFailure")
"""The counters of its cache on disk: asked in vain; found, and not loaded."""
CACHE_PATH, READ_ONLY = "XLA_PERSISTENT_CACHE_PATH", "XLA_PERSISTENT_CACHE_READ_ONLY"
"""The variables that torch_xla.runtime.initialize_cache sets, and that torch_xla reads with its first graph."""
IN_KEY_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
IN_KEY = (*IN_KEY_FLAGS, "TPU_MEGACORE", "XLA_HLO_DEBUG", "XLA_IR_DEBUG")
"""The variables that are mixed into a graph's hash; of the first two the flags that begin with --xla, but dumps."""
