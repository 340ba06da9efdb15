"""docs/how-to/trainers.md: its three callbacks, under the trackers that people use; what these then have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import coldstep

PAGE = (Path(__file__).parents[2] / "docs/how-to/trainers.md").read_text()
HF, LIGHTNING, KERAS = re.findall(r"```python\n(class Watched.*?)```", PAGE, re.DOTALL)
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


def in_wandb(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[[], set[str]]:
    """Have W&B write offline, below the folder; what then gives the names that are in its file."""
    wandb = pytest.importorskip("wandb")
    for name, value in (("WANDB_MODE", "offline"), ("WANDB_DIR", str(folder)), ("WANDB_SILENT", "true")):
        monkeypatch.setenv(name, value)

    def logged() -> set[str]:
        wandb.finish()
        wandb.teardown()  # its own process writes the file, and may not have yet
        [file] = folder.rglob("*.wandb")
        return {name.decode() for name in re.findall(rb"(?:train/)?coldstep/[a-z_]+", file.read_bytes())}

    return logged


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
    assert {f"train/{name}" for name in NAMES} <= logged()


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
    assert logged() >= NAMES


@pytest.mark.tensorflow
def test_keras_hands_them_to_tensorboard(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    import numpy as np

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with coldstep.trace(tmp_path / "run.pftrace", device="off") as run:
        callbacks = [defined(KERAS, keras=keras, run=run)(), keras.callbacks.TensorBoard(tmp_path / "logs")]
        model.fit(np.ones((20, 4)), np.ones(20), batch_size=8, epochs=2, verbose=0, callbacks=callbacks)
    shown = {tag.removeprefix("epoch_"): value for tag, value in in_tensorboard(tmp_path / "logs").items()}
    assert shown.keys() >= NAMES
    assert shown["coldstep/compiles"] == run.metrics()["compiles"] > 0


def test_the_page_names_every_key_of_the_summary() -> None:
    path = next((Path(__file__).parents[1] / "traces").glob("jax_train.pftrace"))
    figures = coldstep.summary(path)
    table = PAGE.partition("| key |")[2]
    assert {*re.findall(r"`(\w+)`", table.partition("\n\n")[0])} == figures.keys()
    assert json.dumps(figures)
