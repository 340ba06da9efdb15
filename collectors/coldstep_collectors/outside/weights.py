"""Weights that are read, written and fetched: PyTorch, safetensors, Orbax, Keras, NumPy's archives, Hugging Face, vLLM.

An asynchronous save counts with what it makes the program wait. Addresses may hold a token, and are not kept.
"""

from __future__ import annotations

from typing import Any

from coldstep.events import Args
from coldstep_collectors.outside.around import Call, Watch, of_file, of_model

_LOAD, _SAVE, _FETCH = "load.weights", "checkpoint", "download"
_NAMES = ("f", "filename", "filepath", "path", "directory")


def _file(call: Call) -> Args:
    """The file that is the first argument of a function."""
    return of_file(call.given(0, *_NAMES))


def _second(call: Call) -> Args:
    """The file that is its second, or a method's first."""
    return of_file(call.given(1, *_NAMES))


def _written(call: Call, _: object, __: Any) -> Args:
    return _second(call)


def _torch_file(call: Call) -> Args:
    return _file(call) | ({"mapped": True} if call.kwargs.get("mmap") else {})


def _safetensors_file(call: Call) -> Args:
    """A tensor of PyTorch's on the CPU is a view of the mapped file."""
    device = call.given(1, "device")  # 0 is a GPU
    return _file(call) | ({"mapped": True} if device is None or str(device) == "cpu" else {})


def _repository(call: Call) -> Args:
    return {"what": str(call.given(0, "repo_id"))}


def _pretrained(call: Call) -> Args:
    return of_model(call.given(1, "pretrained_model_name_or_path"))


_SAFETENSORS = tuple(
    row
    for stack in ("torch", "numpy", "flax", "tensorflow")
    for module in (f"safetensors.{stack}",)
    for row in (
        Watch(module, "load_file", _LOAD, _safetensors_file if stack == "torch" else _file),
        Watch(module, "load_model", _LOAD, _second),
        Watch(module, "save_file", _SAVE),
        Watch(module, "save_model", _SAVE),
    )
)
_ORBAX = (
    *(Watch("orbax.checkpoint", f"{kind}.restore", _LOAD, _second) for kind in
      ("Checkpointer", "AsyncCheckpointer", "StandardCheckpointer", "CheckpointManager")),
    *(Watch("orbax.checkpoint", f"{kind}.save", _SAVE) for kind in
      ("Checkpointer", "AsyncCheckpointer", "StandardCheckpointer", "CheckpointManager")),
    *(Watch("orbax.checkpoint", f"{kind}.wait_until_finished", _SAVE) for kind in
      ("AsyncCheckpointer", "CheckpointManager")),
)  # fmt: skip
_KERAS = (
    Watch("keras", "Model.load_weights", _LOAD, _second),
    Watch("keras", "Model.save_weights", _SAVE),
    Watch("keras", "Model.save", _SAVE),
    Watch("keras.models", "load_model", _LOAD, _file, beside=("keras.saving",)),
    Watch("keras.models", "save_model", _SAVE, beside=("keras.saving",)),
    Watch("keras.utils", "get_file", _FETCH),
)
ROWS = (
    Watch("torch.serialization", "load", _LOAD, _torch_file, beside=("torch",)),
    Watch("torch.serialization", "save", _SAVE, result=_written, beside=("torch",)),
    Watch("torch.distributed.checkpoint", "load", _LOAD),
    Watch("torch.distributed.checkpoint", "save", _SAVE),
    Watch("torch.distributed.checkpoint", "async_save", _SAVE),
    Watch("torch.hub", "load_state_dict_from_url", _LOAD),
    Watch("torch.hub", "download_url_to_file", _FETCH),
    *_SAFETENSORS,
    *_ORBAX,
    *_KERAS,
    # reads each tensor from a mapped file, by a class that takes no hook
    Watch("vllm.model_executor.model_loader.default_loader", "DefaultModelLoader.load_weights", _LOAD),
    # reads by the same class; what it fetches before counts as a download
    Watch("transformers.modeling_utils", "PreTrainedModel.from_pretrained", _LOAD, _pretrained),
    # an archive is opened at once, and each array is read when it is asked for
    Watch("numpy.lib.npyio", "NpzFile.__getitem__", _LOAD),
    Watch("huggingface_hub.file_download", "hf_hub_download", _FETCH, _repository),
    Watch("huggingface_hub._snapshot_download", "snapshot_download", _FETCH, _repository),
)
