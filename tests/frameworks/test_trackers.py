"""docs/how-to/trainers.md: its three callbacks, under the trackers that people use; what these then have."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import coldstep

PAGE = (Path(__file__).parents[2] / "docs/how-to/trainers.md").read_text()
HF, LIGHTNING, KERAS = re.findall(r"```python\n(class Watched.*?)```", PAGE, re.DOTALL)
_BLOCK = 32_768
NAMES = {f"coldstep/{name}" for name in ("compiles", "compile_s", "recompiles", "recompile_s", "cache_hits")}


def defined(source: str, **names: Any) -> Any:
    exec(source, names)
    return names["Watched"]


def in_tensorboard(folder: Path) -> dict[str, float]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    found = {}
    for file in folder.rglob("events.out.tfevents.*"):
        events = EventAccumulator(str(file)).Reload()
        found |= {tag: events.Scalars(tag)[-1].value for tag in events.Tags()["scalars"]}
        found |= {
            tag: float(tensor_util.make_ndarray(events.Tensors(tag)[-1].tensor_proto))
            for tag in events.Tags()["tensors"]
            if "coldstep" in tag
        }
    return found


def in_mlflow(folder: Path) -> dict[str, float]:
    files = [path for path in folder.rglob("metrics/coldstep/*") if path.is_file()]
    return {f"coldstep/{path.name}": float(path.read_text().split()[-2]) for path in files}


def in_wandb(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[[], dict[str, float]]:
    """Have W&B write offline, below the folder; what then gives the last figures that are in its file."""
    wandb = pytest.importorskip("wandb")
    for name, value in (("WANDB_MODE", "offline"), ("WANDB_DIR", str(folder)), ("WANDB_SILENT", "true")):
        monkeypatch.setenv(name, value)

    def logged() -> dict[str, float]:
        from wandb.proto import wandb_internal_pb2

        wandb.finish()
        wandb.teardown()  # its own process writes the file, and may not have yet
        [file] = folder.rglob("*.wandb")
        figures = {}
        for record in _records(file.read_bytes()):
            items = wandb_internal_pb2.Record.FromString(record).history.item
            figures |= {item.key or "/".join(item.nested_key): item.value_json for item in items}
        return {name: float(value) for name, value in figures.items() if "coldstep/" in name}

    return logged


def _records(file: bytes) -> Iterator[bytes]:
    """W&B's file is a log of LevelDB's: pieces of records, none across the end of 32 KiB, the first or last marked."""
    at, whole = 7, b""
    while at < len(file):
        if (left := _BLOCK - at % _BLOCK) < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", file, at)
        whole += file[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # the whole of a record, its last piece
            yield whole
            whole = b""


@pytest.mark.torch
def test_hugging_faces_trainer_hands_them_to_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    pytest.importorskip("mlflow")
    torch = pytest.importorskip("torch")
    torch.compiler.reset()  # an earlier test may have compiled the same layer
    logged = in_wandb(monkeypatch, tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/mlruns")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "logs"))
    monkeypatch.chdir(tmp_path)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.compiled = torch.compile(self.layer, backend="aot_eager")

        def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
            out = self.compiled(x)
            return {"loss": out.mean(), "logits": out}

    data = [{"x": torch.ones(4), "labels": torch.zeros(1)}] * 20
    options = transformers.TrainingArguments(
        str(tmp_path / "out"), per_device_train_batch_size=8, max_steps=5, logging_steps=1, save_strategy="no",
        report_to=["wandb", "mlflow", "tensorboard"], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    with coldstep.trace(tmp_path / "run.pftrace", device="off") as run:
        Watched = defined(HF, transformers=transformers, run=run)
        Watched(Model(), options, train_dataset=data).train()
    compiles = run.metrics()["compiles"]
    assert compiles > 0
    shown = in_tensorboard(tmp_path)
    assert {f"train/{name}" for name in NAMES} <= shown.keys()
    assert shown["train/coldstep/compiles"] == compiles
    assert in_mlflow(tmp_path / "mlruns")["coldstep/compiles"] == compiles
    figures = logged()
    assert figures.keys() >= {f"train/{name}" for name in NAMES}
    assert figures["train/coldstep/compiles"] == compiles


@pytest.mark.torch
def test_lightning_hands_them_to_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lightning = pytest.importorskip("lightning")
    pytest.importorskip("mlflow")
    torch = pytest.importorskip("torch")
    torch.compiler.reset()  # an earlier test may have compiled the same layer
    logged = in_wandb(monkeypatch, tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    from lightning.pytorch import loggers

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.compiled = torch.compile(self.layer, backend="aot_eager")

        def training_step(self, batch: Any, index: int) -> Any:
            return self.compiled(batch).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    to = [loggers.TensorBoardLogger(tmp_path / "logs"), loggers.WandbLogger(save_dir=tmp_path),
          loggers.MLFlowLogger(tracking_uri=f"file:{tmp_path}/mlruns")]  # fmt: skip
    data = torch.utils.data.DataLoader([torch.ones(4)] * 20, batch_size=8)
    with coldstep.trace(tmp_path / "run.pftrace", device="off") as run:
        Watched = defined(LIGHTNING, lightning=lightning, run=run)
        lightning.Trainer(
            max_epochs=2, logger=to, callbacks=[Watched()], log_every_n_steps=1, accelerator="cpu",
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        ).fit(Model(), data)  # fmt: skip
    compiles = run.metrics()["compiles"]
    shown = in_tensorboard(tmp_path / "logs")
    assert shown.keys() >= NAMES
    assert shown["coldstep/compiles"] == compiles > 0
    assert in_mlflow(tmp_path / "mlruns")["coldstep/compiles"] == compiles
    figures = logged()
    assert figures.keys() >= NAMES
    assert figures["coldstep/compiles"] == compiles


def compiles_of_keras(folder: Path, *trackers: Any) -> int:
    """Train a model of Keras', the page's callback before the trackers' own; how many compiles coldstep counted."""
    import keras
    import numpy as np

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with coldstep.trace(folder / "run.pftrace", device="off") as run:
        callbacks = [defined(KERAS, keras=keras, run=run)(), *trackers]
        model.fit(np.ones((20, 4)), np.ones(20), batch_size=8, epochs=2, verbose=0, callbacks=callbacks)
    return int(run.metrics()["compiles"])


@pytest.mark.tensorflow
def test_keras_hands_them_to_tensorboard(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    compiles = compiles_of_keras(tmp_path, keras.callbacks.TensorBoard(tmp_path / "logs"))
    shown = {tag.removeprefix("epoch_"): value for tag, value in in_tensorboard(tmp_path / "logs").items()}
    assert shown.keys() >= NAMES
    assert shown["coldstep/compiles"] == compiles > 0


@pytest.mark.tensorflow
def test_keras_hands_them_to_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged = in_wandb(monkeypatch, tmp_path)
    import wandb
    from wandb.integration.keras import WandbMetricsLogger

    wandb.init(project="tried")
    compiles = compiles_of_keras(tmp_path, WandbMetricsLogger())
    figures = {name.removeprefix("epoch/"): value for name, value in logged().items()}
    assert figures.keys() >= NAMES
    assert figures["coldstep/compiles"] == compiles > 0


@pytest.mark.tensorflow
def test_keras_hands_them_to_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")  # mlflow.keras imports it
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file:{tmp_path}/mlruns")
    from mlflow.keras import MlflowCallback

    with mlflow.start_run():
        compiles = compiles_of_keras(tmp_path, MlflowCallback())
    figures = in_mlflow(tmp_path / "mlruns")
    assert figures.keys() >= NAMES
    assert figures["coldstep/compiles"] == compiles > 0


def test_the_page_names_every_key_of_the_summary() -> None:
    path = next((Path(__file__).parents[1] / "traces").glob("jax_train.pftrace"))
    figures = coldstep.summary(path)
    table = PAGE.partition("| key |")[2]
    assert {*re.findall(r"`(\w+)`", table.partition("\n\n")[0])} == figures.keys()
    assert json.dumps(figures)
