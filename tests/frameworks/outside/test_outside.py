"""What is paid outside of the frameworks' compilers has a name: the phases say what the program measures itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import program
import pytest
from sessions import check_ledger

import coldstep
from coldstep.analysis.budgets import judge, parse
from coldstep.analysis.unobserved import unseen_route
from coldstep.model import Trace
from coldstep_collectors.patch import Patch
from coldstep_viewers.report.headline import headline
from coldstep_viewers.report.terminal import render

MEASURED = '''
import json, time
import coldstep

seconds = {"waited": 0}

def waited():
    """How long this thread has waited for a processor."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9

class measured:
    def __init__(self, name):
        self.name = name
    def __enter__(self):
        self.waited, self.began = waited(), time.perf_counter()
    def __exit__(self, *error):
        seconds[self.name] = seconds.get(self.name, 0) + time.perf_counter() - self.began
        seconds["waited"] += waited() - self.waited
'''

EXTENSION = (
    MEASURED
    + """
import sys
import torch
from torch.utils.cpp_extension import load_inline

# without torch/extension.h, which takes a compiler half a minute
TINY = '''
#include <Python.h>
static PyObject* add(PyObject*, PyObject* x) { return PyLong_FromLong(PyLong_AsLong(x) + 1); }
static PyMethodDef all[] = {{"add", add, METH_O}, {}};
static PyModuleDef tiny = {PyModuleDef_HEAD_INIT, "tiny", nullptr, 0, all};
PyMODINIT_FUNC PyInit_tiny() { return PyModule_Create(&tiny); }
'''
with coldstep.trace("run.pftrace", collectors=["imports", "outside", "process"]):
    with measured("build.native"):
        tiny = load_inline("tiny", TINY, no_implicit_headers=True, build_directory="build")
    assert tiny.add(1) == 2
print(json.dumps(seconds))
"""
)

WEIGHTS = (
    MEASURED
    + """
import numpy as np
import torch
from torch.utils.data import DataLoader

class Rows:
    def __len__(self):
        return 4
    def __getitem__(self, row):
        time.sleep(0.15)
        return row

weights = {"w": torch.zeros(30_000_000)}
with coldstep.trace("run.pftrace", collectors=["outside"]):
    with measured("checkpoint"):
        torch.save(weights, "model.pt")
    with measured("load.weights"):
        again = torch.load("model.pt", mmap=False)
    np.savez("arrays.npz", w=np.ones(20_000_000))
    archive = np.load("arrays.npz")
    with measured("load.weights"):
        w = archive["w"]
    try:
        torch.load("nowhere.pt")
    except FileNotFoundError:
        pass
    torch.load("model.pt", mmap=True)
    rows = []
    loader = DataLoader(Rows(), batch_size=2)
    for turn in range(2):
        with measured("data"):
            batches = iter(loader)
            rows.append(next(batches))
        rows += list(batches)
    assert "__next__" not in vars(type(batches))
print(json.dumps(seconds))
assert len(rows) == 4 and torch.equal(again["w"], weights["w"]) and w.sum() == 20_000_000
assert torch.load.__module__ == "torch.serialization" and not hasattr(torch.load, "__wrapped__")
"""
)

ON_DISK = """
import os
import torch

def from_disk(file):
    with open(file, "rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # so that it is read from disk

def read():
    try:
        with open("/proc/self/io") as file:
            return int(next(line for line in file if line.startswith("read_bytes")).split()[1])
    except OSError:  # a container may close it
        return None

class Net(torch.nn.Module):
    def __init__(self, size=30_000_000):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(size))

weights = {"w": torch.ones(30_000_000)}
"""

MAPPED = (
    MEASURED
    + ON_DISK
    + """
suffix = os.environ["SUFFIX"]
if suffix == "pt":
    torch.save(weights, "model.pt")
else:
    import safetensors.torch
    safetensors.torch.save_file(weights, "model.safetensors")
from_disk(f"model.{suffix}")
with coldstep.trace("run.pftrace", collectors=["outside", "process"]):
    with measured("load"):
        if suffix == "pt":
            mapped = torch.load("model.pt", mmap=True)
        else:
            mapped = safetensors.torch.load_file("model.safetensors")
    before = read()
    with measured("touch"):
        for _ in range(20):
            mapped["w"].sum()
    seconds["read"] = read() - before if before is not None else None
    time.sleep(0.2)
    with coldstep.step():
        time.sleep(0.2)
print(json.dumps(seconds))
"""
)

COPIED = (
    MEASURED
    + ON_DISK
    + """
net, other, suffix = Net(), Net(), os.environ["SUFFIX"]
if suffix == "pt":
    torch.save(weights, "model.pt")
else:
    import safetensors.torch
    safetensors.torch.save_file(weights, "model.safetensors")
from_disk(f"model.{suffix}")
before = read()
with coldstep.trace("run.pftrace", collectors=["outside", "process"]):
    with measured("load.weights"):
        if suffix == "pt":
            net.load_state_dict(torch.load("model.pt", mmap=True))
        else:
            net.load_state_dict(safetensors.torch.load_file("model.safetensors"))
    seconds["read"] = read() - before if before is not None else None
    with coldstep.step():
        net.load_state_dict(weights)
        other.load_state_dict(weights, assign=True)
        for _ in range(3):
            Net(2).load_state_dict({"w": torch.ones(2)})
assert net.load_state_dict.__func__.__module__ == "torch.nn.modules.module"
assert torch.equal(net.w, weights["w"]) and other.w.data_ptr() == weights["w"].data_ptr()
print(json.dumps(seconds))
"""
)

TAKEN_OVER = (
    MEASURED
    + """
import torch

big = torch.nn.Linear(4000, 4000)
small = torch.nn.Linear(4000, 2000)
first = torch.optim.Adam(big.parameters())
big(torch.ones(4000)).sum().backward()
first.step()
state = {"model": big.state_dict(), "optimizer": first.state_dict()}
second = torch.optim.Adam(torch.nn.Linear(4000, 4000).bfloat16().parameters())  # which copies what it takes over
with coldstep.trace("run.pftrace", collectors=["outside"]):
    with measured("load.weights"):
        second.load_state_dict(state["optimizer"])
    try:
        small.load_state_dict(state["model"])
    except RuntimeError as error:
        print(str(error).splitlines()[0])
    with coldstep.step():
        time.sleep(0.01)
print(json.dumps(seconds))
"""
)

ORBAX = (
    MEASURED
    + """
import os
import numpy as np
with coldstep.trace("run.pftrace", collectors=["outside"]):
    import orbax.checkpoint as ocp
    saver = ocp.AsyncCheckpointer(ocp.StandardCheckpointHandler())
    tree = {"w": np.ones(20_000_000, np.float32)}
    with measured("checkpoint"):
        saver.save(os.path.abspath("kept"), args=ocp.args.StandardSave(tree))
    with measured("wait"):
        saver.wait_until_finished()
    with measured("load.weights"):
        again = saver.restore(os.path.abspath("kept"))
seconds["checkpoint"] += seconds["wait"]
print(json.dumps(seconds))
"""
)

GROUP = (
    MEASURED
    + """
import os
import torch
import torch.distributed as dist

child = os.fork()
rank = 0 if child else 1
if rank:
    time.sleep(1.5)
with coldstep.trace(f"rank{rank}.pftrace", collectors=["outside"]):
    with measured("comm.init"):
        dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=rank, world_size=2)
    time.sleep(0.5 * rank)
    with measured("comm.init"):
        dist.barrier()
    time.sleep(0.5 * rank)
    with measured("comm.init"):
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    time.sleep(0.5 * rank)
    dist.barrier()
dist.destroy_process_group()
assert not hasattr(dist.barrier, "__wrapped__") or dist.barrier.__module__.startswith("torch")
with open(f"rank{rank}.json", "w") as file:
    json.dump(seconds, file)
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
)

BY_HAND = """
import subprocess
import coldstep

with coldstep.trace("run.pftrace", collectors=["process"]):
    coldstep.ready()
    subprocess.run(["g++", "-O2", "-o", "kernel.out", "kernel.cpp"], check=True)
    subprocess.run(["g++", "-O2", "-o", "other.out", "kernel.cpp"], check=True, capture_output=True)
    subprocess.run(["g++", "none.cpp"], capture_output=True)
    subprocess.run(["g++", "--version"], capture_output=True)
"""

TUNED = """
import torch
import torch._inductor.config as config
import coldstep

config.max_autotune_gemm_backends = "ATEN,CPP"
config.freezing = True
torch.manual_seed(0)
step = torch.compile(torch.nn.Linear(192, 256).eval(), mode="max-autotune")
with coldstep.trace("run.pftrace"), torch.no_grad():
    for _ in range(3):
        with coldstep.step():
            step(torch.ones(64, 192))
"""


def seconds(trace: Trace) -> dict[str, float]:
    """By phase, over all intervals."""
    spent: dict[str, float] = {}
    for interval in trace.intervals:
        for phase, ns in interval.phases.items():
            spent[phase] = spent.get(phase, 0) + ns / 1e9
    return spent


def assert_as_measured(done: str, trace: Trace, *phases: str) -> None:
    measured: dict[str, float] = json.loads(done.splitlines()[-1])
    spent = seconds(trace)
    for phase in phases:
        assert spent[phase] == as_measured(measured, phase), phase
    check_ledger(trace)


def as_measured(measured: dict[str, float], name: str, more: float = 0.0) -> object:
    """Within 10 %, and the moment that a hook takes; on a busy machine what a processor was waited for beside it."""
    whole = measured[name] + more
    return pytest.approx(whole, rel=0, abs=max(0.1 * whole, 0.005) + measured["waited"])


NEEDS_TRITON = pytest.mark.skipif(
    find_spec("triton") is None, reason="PyTorch's wheel for the CPU brings no Triton; that of .venv-xla does"
)


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder in which a program has built an extension, and what it printed: then, and when it ran again."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("extension")
    (folder / "build").mkdir()
    said = [program.run(EXTENSION, folder, stack="torch").stdout]
    (folder / "run.pftrace").rename(folder / "built.pftrace")
    said.append(program.run(EXTENSION, folder, stack="torch").stdout)
    return folder, said


@pytest.mark.torch
def test_an_extension_is_built_once_and_loaded_after_that(extension: tuple[Path, list[str]]) -> None:
    folder, said = extension
    first, second = coldstep.load(folder / "built.pftrace"), coldstep.load(folder / "run.pftrace")
    assert_as_measured(said[0], first, "build.native")
    [built], [loaded] = first.builds, second.builds
    assert (built.name, built.tool, built.state, loaded.state) == ("tiny", "ninja", "built", "loaded")
    assert built.location is not None
    assert loaded.wall_ns < built.wall_ns / 2
    for trace in (first, second):
        assert unseen_route(trace) is None
    text = render(first, 100)
    assert re.search(r"native build +[\d.]+ m?s", text)
    assert re.search(r"Built outside of the frameworks(?s:.*?)tiny +[\d.]+ m?s +ninja, ", text)
    assert "had been built before" in render(second, 100)
    assert first.to_json()["builds"][0]["name"] == "tiny"


def waiting_for(lock: Path) -> tuple[subprocess.Popen[str], str]:
    """The program of the extension, once it has said that it waits for a lock; and that line."""
    process = subprocess.Popen(
        [sys.executable, "program.py"], cwd=lock.parents[1], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    return process, next(line for line in process.stderr if "waits for the lock" in line)


@pytest.mark.torch
def test_a_build_that_waits_for_another_process_names_it(extension: tuple[Path, list[str]]) -> None:
    folder, _ = extension
    lock = folder / "build/lock"
    with open(os.open(lock, os.O_CREAT | os.O_EXCL)):
        process, line = waiting_for(lock)
    lock.unlink()
    process.communicate()
    trace = coldstep.load(folder / "run.pftrace")
    [build] = trace.builds
    assert build.state == "waited"
    assert seconds(trace)["build.wait"] > 1
    whose = f"{lock}, which is \\d+ s old: process {os.getpid()} holds it"
    assert re.search(whose, line)
    assert re.search(whose, " ".join(trace.run.notes))
    assert "another process built it" in render(trace, 100)


@pytest.mark.torch
def test_a_lock_that_no_process_holds_is_called_so_while_it_is_waited_for(extension: tuple[Path, list[str]]) -> None:
    lock = extension[0] / "build/lock"
    lock.touch()
    process, line = waiting_for(lock)
    assert lock.exists()  # nothing is deleted
    lock.unlink()
    process.communicate()
    assert process.returncode == 0
    assert re.search(rf"{lock}, which is \d+ s old, and no process on this host holds it", line)


@pytest.mark.torch
def test_weights_checkpoints_and_the_first_batch_take_what_the_program_measures(tmp_path: Path) -> None:
    done = program.run(WEIGHTS, tmp_path, stack="torch")
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert_as_measured(done.stdout, trace, "checkpoint", "load.weights", "data")
    rows = [(row.phase, row.name, row.bytes) for row in trace.transfers]
    size = (tmp_path / "model.pt").stat().st_size
    assert rows == [
        ("checkpoint", "model.pt", size), ("load.weights", "model.pt", size), ("load.weights", "", None),
        ("load.weights", "nowhere.pt", None), ("load.weights", "model.pt", size),
    ]  # fmt: skip
    assert [row.mapped for row in trace.transfers] == [False, False, False, False, True]
    assert trace.transfers[1].location is not None
    assert re.search(r"loading weights .*model\.pt 114 MiB", render(trace, 120))


def _needed(suffix: str) -> None:
    pytest.importorskip("torch")
    if suffix == "safetensors":
        pytest.importorskip("safetensors")


@pytest.mark.torch
@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_the_line_that_first_touches_mapped_weights_is_named_with_what_it_read(tmp_path: Path, suffix: str) -> None:
    _needed(suffix)
    done = program.run(MAPPED, tmp_path, env={"SUFFIX": suffix}, stack="torch")
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    trace = coldstep.load(tmp_path / "run.pftrace")
    [row] = trace.transfers
    assert (row.name, row.mapped) == (f"model.{suffix}", True)
    assert row.wall_ns / 1e9 == as_measured(measured, "load")
    before = trace.intervals[0]
    assert before.unattributed_ns / 1e9 == as_measured(measured, "touch", more=0.2)
    own = measured["read"]  # none from a disk that is memory
    assert (row.read_later_bytes is None) == (own is None)
    if own:
        assert own * 0.9 <= (row.read_later_bytes or 0) <= own * 1.1 + 30_000_000
        [(line, size)] = before.read_bytes.items()
        assert before.sampled[line] > 0
        assert own * 0.5 <= size <= own * 1.1 + 30_000_000
        told = rf"{line} \([\d.]+ MiB read from disk; weights were mapped before\)"
        assert re.search(told, " ".join(render(trace, 300).split()))


@pytest.mark.torch
@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_what_is_mapped_is_read_as_a_module_takes_it_over(tmp_path: Path, suffix: str) -> None:
    _needed(suffix)
    done = program.run(COPIED, tmp_path, env={"SUFFIX": suffix}, stack="torch")
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert_as_measured(done.stdout, trace, "load.weights")
    load, copy = trace.transfers  # not the second load, nor one that copies nothing, nor those of small modules
    assert [(row.name, row.mapped) for row in trace.transfers] == [
        (f"model.{suffix}", True), ("copies weights into Net", False),
    ]  # fmt: skip
    assert copy.bytes == 120_000_000
    assert copy.wall_ns > load.wall_ns
    assert copy.location is not None
    own = json.loads(done.stdout.splitlines()[-1])["read"]
    assert own is None or own * 0.9 <= (copy.read_later_bytes or 0) <= own * 1.1
    read = r" \([\d.]+ MiB read from disk\)" if own else ""
    assert re.search(rf"loading weights .*copies weights into Net 114 MiB{read}", render(trace, 200, every=True))


@pytest.mark.torch
def test_an_optimizers_state_is_taken_over_and_what_fails_to_ends_its_phase(tmp_path: Path) -> None:
    done = program.run(TAKEN_OVER, tmp_path, stack="torch")
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert "Error(s) in loading state_dict for Linear" in done.stdout
    assert [row.name for row in trace.transfers if "Adam" in row.name] == ["copies state into Adam"]
    assert "load.weights" not in trace.intervals[1].phases
    spent, own = seconds(trace)["load.weights"], json.loads(done.stdout.splitlines()[-1])["load.weights"]
    assert own * 0.9 <= spent <= own * 1.1 + 0.05  # what failed was short


def test_what_safetensors_reads_onto_a_gpu_is_not_mapped(tmp_path: Path) -> None:
    (tmp_path / "safetensors").mkdir()
    (tmp_path / "safetensors" / "__init__.py").touch()  # else an installed one comes before it
    (tmp_path / "safetensors" / "torch.py").write_text('def load_file(filename, device="cpu"):\n    return {}\n')
    text = """
    import coldstep
    with coldstep.trace("run.pftrace", collectors=["outside"]):
        import numpy  # as all that loads weights does
        from safetensors.torch import load_file
        for device in ("cpu", "cuda", 0, 1):
            load_file("model.safetensors", device=device)
        load_file("model.safetensors")
    """
    program.run(text, tmp_path)
    rows = coldstep.load(tmp_path / "run.pftrace").transfers
    assert [row.mapped for row in rows] == [True, False, False, False, True]


@pytest.mark.jax
def test_orbax_makes_the_program_wait_for_its_asynchronous_save_in_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("orbax.checkpoint")
    done = program.run(ORBAX, tmp_path, stack="jax")
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert_as_measured(done.stdout, trace, "checkpoint", "load.weights")
    assert [row.phase for row in trace.transfers] == ["checkpoint", "checkpoint", "load.weights"]


LOADER = "class DefaultModelLoader:\n    def load_weights(self, model, model_config):\n        time.sleep(0.2)\n"


def test_what_vllm_loads_is_loading_of_weights(tmp_path: Path) -> None:
    loaders = tmp_path / "vllm" / "model_executor" / "model_loader"
    loaders.mkdir(parents=True)
    (loaders / "default_loader.py").write_text(f"import time\n{LOADER}")
    text = """
    import coldstep
    with coldstep.trace("run.pftrace", collectors=["outside"]):
        import numpy  # as all that loads weights does
        from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
        DefaultModelLoader().load_weights(None, None)
    """
    program.run(text, tmp_path)
    [row] = coldstep.load(tmp_path / "run.pftrace").transfers
    assert (row.phase, row.wall_ns // 100_000_000) == ("load.weights", 2)


WORKERS = """
import time

class WorkerBase:
    def __init__(self, config, rank=0):
        self.model_config = config

    def init_device(self):
        raise NotImplementedError

    def load_model(self):
        raise NotImplementedError

    def compile_or_warm_up_model(self):
        raise NotImplementedError

    def execute_model(self):
        raise NotImplementedError
"""
ENGINE = """
import time
from vllm.utils.gc_utils import freeze_gc_heap

class KVCacheManager:
    def __init__(self, config):
        time.sleep(0.2)

    def allocate_slots(self):
        time.sleep(0.1)

def start():
    KVCacheManager(None).allocate_slots()
    freeze_gc_heap()
"""
WORKER = """
import time
from types import SimpleNamespace
import coldstep
with coldstep.trace("run.pftrace", collectors=["outside"]):
    import numpy  # as all that loads weights does
    from vllm.v1.worker.worker_base import WorkerBase
    from vllm.model_executor.model_loader.default_loader import DefaultModelLoader

    class Worker(WorkerBase):
        def init_device(self):
            time.sleep(0.2)

        def load_model(self, *, load_dummy_weights=False):
            time.sleep(0.1)
            DefaultModelLoader().load_weights(None, None)
            return 7

        def determine_available_memory(self):
            time.sleep(0.2)
            raise ValueError("too little")

        def initialize_from_config(self, config):
            time.sleep(0.3)

        def execute_model(self):
            time.sleep(0.1)

    class CpuWorker(Worker):
        def compile_or_warm_up_model(self):
            time.sleep(0.2)

    real = Worker.load_model
    for _ in range(2):  # of one process, as tests make them: the class is hooked once
        worker = CpuWorker(SimpleNamespace(model="org/model"), rank=0)
    assert worker.model_config.model == "org/model"
    from vllm.triton_utils.dispatcher import register_kernels
    register_kernels({})
    worker.init_device()
    assert worker.load_model(load_dummy_weights=True) == 7
    try:
        worker.determine_available_memory()
        raise SystemExit("it raised nothing")
    except ValueError as error:
        assert str(error) == "too little"
    worker.initialize_from_config(None)
    worker.compile_or_warm_up_model()
    worker.execute_model()
    from vllm.v1.core import kv_cache_manager
    kv_cache_manager.start()
    assert Worker.load_model is not real
    assert not hasattr(WorkerBase, "determine_available_memory")
assert Worker.load_model is real
"""


def test_what_vllm_does_before_it_serves_has_phases(tmp_path: Path) -> None:
    for folder, name, text in (
        ("v1/worker", "worker_base", WORKERS),
        ("v1/core", "kv_cache_manager", ENGINE),
        ("utils", "gc_utils", "import time\ndef freeze_gc_heap():\n    time.sleep(0.3)\n"),
        ("triton_utils", "dispatcher", "import time\ndef register_kernels(overrides):\n    time.sleep(0.2)\n"),
        ("model_executor/model_loader", "default_loader", f"import time\n{LOADER}"),
    ):
        (tmp_path / "vllm" / folder).mkdir(parents=True)
        (tmp_path / "vllm" / folder / f"{name}.py").write_text(text)
    program.run(WORKER, tmp_path)
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert [(row.phase, row.name, row.wall_ns // 100_000_000) for row in trace.transfers] == [
        ("load.weights", "org/model", 3)
    ]  # the loader's part of it is no row of its own
    took = {phase: ns // 100_000_000 for phase, ns in trace.intervals[0].phases.items() if ns >= 100_000_000}
    assert {each: took.get(each) for each in ("device.init", "load.weights", "warmup", "kv_cache", "gc")} == {
        "device.init": 4, "load.weights": 3, "warmup": 4, "kv_cache": 5, "gc": 3,
    }  # fmt: skip


def test_what_transformers_loads_is_loading_of_weights_of_the_class_that_was_asked(tmp_path: Path) -> None:
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").touch()  # the one that is installed, if one is, is another
    (tmp_path / "transformers" / "modeling_utils.py").write_text("""
import time
class PreTrainedModel:
    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *inputs):
        time.sleep(0.2)
        return cls
""")
    text = """
    import coldstep
    with coldstep.trace("run.pftrace", collectors=["outside"]):
        import numpy  # as all that loads weights does
        from transformers.modeling_utils import PreTrainedModel
        class Model(PreTrainedModel):
            pass
        assert Model.from_pretrained("org/model") is Model
        assert Model.from_pretrained(pretrained_model_name_or_path=".") is Model
    assert isinstance(vars(PreTrainedModel)["from_pretrained"], classmethod)
    assert PreTrainedModel.from_pretrained("org/model") is PreTrainedModel
    """
    program.run(text, tmp_path)
    rows = coldstep.load(tmp_path / "run.pftrace").transfers
    assert [(row.phase, row.name, row.wall_ns // 100_000_000) for row in rows] == [
        ("load.weights", "org/model", 2), ("load.weights", ".", 2),
    ]  # fmt: skip


@pytest.mark.torch
def test_a_rank_that_comes_late_is_waited_for_in_comm_init(tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed")
    program.run(GROUP, tmp_path, stack="torch")
    for rank in (0, 1):
        measured = (tmp_path / f"rank{rank}.json").read_text()
        assert_as_measured(measured, coldstep.load(tmp_path / f"rank{rank}.pftrace"), "comm.init")


def test_a_compiler_that_the_program_waits_for_is_a_build_and_one_too_late_after_ready(tmp_path: Path) -> None:
    (tmp_path / "kernel.cpp").write_text("#include <iostream>\n#include <map>\nint main() {}\n")
    program.run(BY_HAND, tmp_path)
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert [(row.name, row.tool, row.state) for row in trace.builds] == [
        ("kernel.out", "g++", "built"), ("other.out", "g++", "built"), ("g++", "g++", "failed"),
    ]  # fmt: skip
    assert unseen_route(trace) is None
    assert [row.builds for row in trace.readiness] == [[row.id for row in trace.builds]]
    late = [row.text for row in trace.findings if row.kind == "after_ready"]
    assert any(re.match(r"kernel\.out was built after ready, by g\+\+", text) for text in late)
    verdict = judge([trace], parse({"ready": True}))
    assert verdict.word == "over"
    assert [row.found for row in verdict.checks if row.limit == "ready_builds"] == [3]
    assert "3 builds" in headline(trace)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, str]:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("tuned")
    done = program.run(TUNED, folder, env={"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}, stack="torch")
    return coldstep.load(folder / "run.pftrace"), done.stderr


@pytest.mark.torch
def test_autotuning_takes_what_pytorch_prints_and_says_whether_it_pays(tuned: tuple[Trace, str]) -> None:
    trace, said = tuned
    printed = re.search(
        r"benchmarking takes ([\d.]+) seconds and ([\d.]+) seconds precompiling for (\d+) choices", said
    )
    assert printed is not None
    whole = float(printed[1]) + float(printed[2])
    [row] = trace.autotuning
    assert (row.compile_ns + row.timing_ns) / 1e9 == pytest.approx(whole, rel=0.02, abs=0.005)
    assert trace.intervals[1].phases["autotune"] / 1e9 == pytest.approx(whole, rel=0.02, abs=0.005)
    assert row.choices == int(printed[3])
    assert row.operation.startswith("packed_linear(64x192, ")
    assert row.winner in said
    assert row.compile_ns > row.timing_ns > 0
    assert row.gain_ns is not None
    assert row.pays_after_calls is None or row.pays_after_calls * row.gain_ns >= row.compile_ns + row.timing_ns
    assert not row.cached
    assert "inductor.triton" not in {phase for interval in trace.intervals for phase in interval.phases}
    check_ledger(trace)
    assert row.held_up_ns is not None
    if row.pays_after_calls:  # PyTorch times the choices on a machine that may be busy
        assert "less a call as it was timed then, pays after" in " ".join(render(trace, 200).split())
    assert re.search(r"Autotuning \(1\)\s+packed_linear(?s:.*)won of 2 choices", render(trace, 120))


@pytest.mark.torch
def test_a_budget_for_autotuning_is_kept_or_not(tuned: tuple[Trace, str]) -> None:
    trace, _ = tuned
    words = {limit: judge([trace], parse({"max-autotune-seconds": limit})).word for limit in ("0.01", "3600", "1h")[:2]}
    assert words == {"0.01": "over", "3600": "within"}
    with pytest.raises(ValueError, match="not a number of seconds"):
        parse({"max-autotune-seconds": "1h"})


TRITON = """
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import coldstep

@triton.jit
def add_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)

types = {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
source = ASTSource(add_kernel, types, {(3,): 128})
with coldstep.trace("run.pftrace"):
    for _ in range(2):
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
assert "cubin" in made.asm and triton.compile.__module__ == "triton.compiler.compiler"
"""


@pytest.mark.torch_xla
@NEEDS_TRITON
def test_a_kernel_of_the_programs_own_is_compiled_once_and_loaded_after_that(tmp_path: Path) -> None:
    program.run(TRITON, tmp_path, env={"TRITON_CACHE_DIR": str(tmp_path / "cache")})
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert [(row.name, row.tool, row.state) for row in trace.builds] == [
        ("add_kernel", "triton", "built"), ("add_kernel", "triton", "loaded"),
    ]  # fmt: skip
    assert trace.builds[0].location is not None
    assert seconds(trace)["kernel.jit"] > 0.05
    assert unseen_route(trace) is None


TUNED_KERNEL = """
import os, time
import torch, triton, triton.language as tl
import coldstep

def timed(call, quantiles):
    call()
    time.sleep(0.1)
    return [0.2, 0.1, 0.3] if "REFUSED" not in os.environ else 1 / 0

@triton.autotune([triton.Config({"BLOCK": block}) for block in (64, 128)], key=["n"], do_bench=timed)
@triton.jit
def add_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)

class Fewer(type(add_kernel)):
    def prune_configs(self, kwargs):
        return super().prune_configs(kwargs)[:1]

before = vars(type(add_kernel)).copy()
if "FEWER" in os.environ:
    add_kernel.__class__ = Fewer
x, out = torch.zeros(1000), torch.zeros(1000)
with coldstep.trace("run.pftrace"):
    for n in (1000, 1000, 900):
        with coldstep.step():
            try:
                add_kernel[(16,)](x, out, n)
            except ZeroDivisionError:
                print("refused")
assert vars(Fewer.__base__) == before
from coldstep_collectors.outside import kernel_tuning
assert not kernel_tuning._tunings and not kernel_tuning.is_choosing()
print(out.sum().item())
"""


@pytest.mark.torch_xla
@NEEDS_TRITON
def test_what_tritons_autotuner_tries_is_one_row_for_each_key(tmp_path: Path) -> None:
    done = program.run(TUNED_KERNEL, tmp_path, env={"TRITON_INTERPRET": "1"}, stack="torch_xla")
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert [(row.operation, row.choices, row.winner[:9]) for row in trace.autotuning] == [
        ("add_kernel(n=1000)", 2, "BLOCK: 64"), ("add_kernel(n=900)", 2, "BLOCK: 64"),
    ]  # fmt: skip
    steps = [row for row in trace.intervals if row.kind == "step"]
    for step, row in zip([steps[0], steps[2]], trace.autotuning, strict=True):
        assert row.timing_ns == pytest.approx(step.phases["autotune"], rel=0.01, abs=20_000_000)
        assert row.timing_ns >= 200_000_000
        assert row.location is not None
        assert (row.gain_ns, row.pays_after_calls, row.cached) == (None, None, False)
    assert "autotune" not in steps[1].phases
    assert done.stdout.split()[-1] == "1000.0"
    check_ledger(trace)


@pytest.mark.torch_xla
@NEEDS_TRITON
def test_a_choice_of_tritons_autotuner_that_raises_ends_the_phase(tmp_path: Path) -> None:
    done = program.run(TUNED_KERNEL, tmp_path, env={"TRITON_INTERPRET": "1", "REFUSED": "1"}, stack="torch_xla")
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert done.stdout.split() == ["refused"] * 3 + ["1000.0"]  # what the choices wrote
    assert trace.autotuning == []
    assert [row for row in trace.collectors if row.state == "failed"] == []
    assert len([row for row in trace.intervals if row.kind == "step" and "autotune" in row.phases]) == 3
    check_ledger(trace)


CHOICES = r"""
import time
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import triton.runtime.build as build
import coldstep

def timed(call, quantiles):
    config = call.__closure__[[*call.__code__.co_freevars].index("config")].cell_contents
    types = {"out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    triton.compile(ASTSource(kernel, types, {(2,): config.kwargs["BLOCK"]}), target=GPUTarget("cuda", 90, 32))
    return config.kwargs["BLOCK"]

@triton.jit
def kernel(out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 1.0, mask=at < n)

tuned = triton.autotune([triton.Config({"BLOCK": block}) for block in (128, 64)], key=["n"], do_bench=timed)(kernel)
stub = '''
#include <Python.h>
static struct PyModuleDef tiny = {PyModuleDef_HEAD_INIT, "tiny", 0, -1, 0};
PyMODINIT_FUNC PyInit_tiny(void) { return PyModule_Create(&tiny); }
'''
with coldstep.trace("run.pftrace"):
    try:
        tuned[(1,)](None, 100)
    except RuntimeError as error:
        print(error)  # there is no device to launch it on
    for _ in range(2):
        build.compile_module_from_src(stub, "tiny")
        time.sleep(0.1)
"""


@pytest.mark.torch_xla
@NEEDS_TRITON
def test_a_tuner_that_tries_fewer_choices_than_it_has_ends_with_them(tmp_path: Path) -> None:
    program.run(TUNED_KERNEL, tmp_path, env={"TRITON_INTERPRET": "1", "FEWER": "1"}, stack="torch_xla")
    trace = coldstep.load(tmp_path / "run.pftrace")
    steps = [row for row in trace.intervals if row.kind == "step"]
    assert [100_000_000 < row.phases.get("autotune", 0) < row.wall_ns for row in steps] == [True, False, True]
    check_ledger(trace)


@pytest.mark.torch_xla
@NEEDS_TRITON
def test_what_compiles_a_choice_or_what_launches_a_kernel_is_no_unseen_route(tmp_path: Path) -> None:
    done = program.run(CHOICES, tmp_path, env={"TRITON_CACHE_DIR": str(tmp_path / "cache")}, stack="torch_xla")
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert "0 active drivers" in done.stdout
    [row] = trace.autotuning
    assert (row.operation, row.choices, row.winner[:9]) == ("kernel(n=100)", 2, "BLOCK: 64")
    assert row.compile_ns > row.timing_ns > 0
    assert [(row.name, row.tool, row.state) for row in trace.builds] == [
        ("tiny", "gcc", "built"), ("tiny", "gcc", "loaded"),
    ]  # fmt: skip
    assert trace.unplaced == []
    assert {*seconds(trace)} >= {"autotune", "kernel.jit"}
    title = r"Nothing to change: 2 builds outside of the frameworks took .*, autotuning took "
    assert re.search(title, render(trace, 200)) is not None
    check_ledger(trace)


def test_a_hook_that_has_taken_itself_away_leaves_nothing() -> None:
    class Module:
        """What a hook goes into."""

    owner: Any = Module
    owner.starts = real = object()
    patch = Patch(owner, "starts", object())
    owner.starts = real
    assert patch.undo() is None
    patch = Patch(owner, "starts", object())
    owner.starts = object()
    assert patch.undo() is not None


def test_a_trace_of_none_of_it_has_none(tmp_path: Path) -> None:
    with coldstep.trace(tmp_path / "run.pftrace", collectors=["outside", "process"]):
        pass
    document: dict[str, Any] = coldstep.load(tmp_path / "run.pftrace").to_json()
    assert (document["builds"], document["autotuning"]) == ([], [])
