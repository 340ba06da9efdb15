"""`coldstep.would_fit`: what a step will hold, before anything is allocated, against what it then holds."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from program import run, stack_of

import coldstep
from coldstep.ahead.fit import limit


def said(source: str, folder: Path) -> list[str]:
    """What a program prints that is run by itself."""
    return run(source, folder, stack=stack_of(source)).stdout.splitlines()


JAX = """
    import jax, optax
    import coldstep

    optimizer = optax.adam(1e-3)

    def loss_of(params, batch):
        x = batch["x"]
        for weight in params.values():
            x = jax.nn.tanh(x @ weight)
        return ((x - batch["y"]) ** 2).mean()

    @jax.jit
    def train_step(params, state, batch):
        gradients = jax.grad(loss_of)(params, batch)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state

    params = {f"w{n}": jax.ShapeDtypeStruct((512, 512), "float32") for n in range(4)}
    state = jax.eval_shape(optimizer.init, params)
    batch = {name: jax.ShapeDtypeStruct((4096, 512), "float32") for name in ("x", "y")}
    before = len(jax.live_arrays())
    fit = coldstep.would_fit(train_step, params, state, batch, memory="24MiB")
    print(len(jax.live_arrays()) - before)
    program = fit.argument_bytes + fit.output_bytes - fit.reused_bytes + fit.temp_bytes
    print(fit.fits, fit.peak_bytes == program + fit.compiler_bytes)
    held = {row.what: row.bytes for row in fit.held}
    print(held["what compiling leaves"] == fit.compiler_bytes, 1 << 20 < fit.compiler_bytes < 1 << 28)
    again = coldstep.would_fit(train_step, params, state, batch, memory="24MiB")
    print(again.peak_bytes == fit.peak_bytes)  # though it is not compiled again
    one = 512 * 512 * 4
    print(held["parameters"] == 4 * one, held["optimizer state"] == 8 * one + 4, held["batch"] == 2 * 4096 * 512 * 4)
    print(held["gradients"] == 4 * one, held["activations saved for the backward"] >= 4 * 4096 * 512 * 4)
    remedies = {row.name: row for row in fit.remedies if row.peak_bytes is not None}
    print(sorted(remedies), all(remedies[name].peak_bytes < fit.peak_bytes for name in ("batch", "donation")))
    print(remedies["donation"].change)
    print(coldstep.would_fit(train_step, params, state, batch, memory="2GiB").remedies)

    square = {"w": jax.ShapeDtypeStruct((64, 64), "float32")}  # as large as what it is multiplied with
    batch = {name: square["w"] for name in ("x", "y")}
    gemm = coldstep.would_fit(train_step, square, jax.eval_shape(optimizer.init, square), batch, memory="2GiB")
    left_out = ("temporaries", "what compiling leaves")
    print({row.what: row.bytes // 64**2 // 4 for row in gemm.held if row.within is None and row.what not in left_out})
    def roles(fn, *args):
        rows = coldstep.would_fit(fn, *args, memory="2GiB").held
        return {row.what: row.bytes for row in rows if row.what in ("parameters", "optimizer state", "batch")}

    one = {"w": jax.ShapeDtypeStruct((256, 256), "float32")}
    adam = optax.scale_by_adam()
    bare = jax.eval_shape(adam.init, one)
    x = jax.ShapeDtypeStruct((8, 256), "float32")
    print(roles(lambda p, m, v, x: (p, m, v, (x @ p["w"]).sum()), one, one, one, x))
    print(roles(lambda p, s, x: (*adam.update(p, s), (x @ p["w"]).sum()), one, bare, x))
    state = {"params": one, "opt_state": bare}
    def step(s, x):
        params, opt_state = adam.update(s["params"], s["opt_state"])
        return {"params": params, "opt_state": opt_state}, (x @ s["params"]["w"]).sum()

    print(roles(step, state, x))
    print(fit)
"""


@pytest.mark.jax
def test_jax_is_asked_ahead_of_time_and_allocates_nothing(tmp_path: Path) -> None:
    lines = said(JAX, tmp_path)
    assert lines[:10] == [
        "0",
        "False True",
        "True True",
        "True",
        "True True True",
        "True True",
        "['batch', 'donation', 'dtype'] True",
        "donate_argnums=(0, 1)",
        "[]",
        "{'results beside the arguments': 3, 'optimizer state': 2, 'batch': 2, 'parameters': 1}",
    ]
    each = {"optimizer state": 2 * 256 * 256 * 4, "parameters": 256 * 256 * 4, "batch": 8 * 256 * 4}
    with_count = each | {"optimizer state": each["optimizer state"] + 4}
    assert [ast.literal_eval(line) for line in lines[10:13]] == [each, with_count, with_count]
    assert lines[13].startswith("does not fit into 24.0 MiB: ")
    assert ", what compiling leaves " in lines[14]
    assert lines[-1].startswith("  What compiling leaves is no analysis: ")
    assert any(line.startswith("  donation: donate_argnums=(0, 1): ") for line in lines)
    assert any(line.startswith("  rematerialisation: jax.checkpoint around each layer: not tried, ") for line in lines)


TORCH = """
    import torch
    import coldstep

    def make(device):
        with torch.device(device):
            layers = [(torch.nn.Linear(512, 512), torch.nn.Tanh()) for _ in range(4)]
            model = torch.nn.Sequential(*(torch.nn.Sequential(*layers[n], *layers[n + 1]) for n in (0, 2)))
            x, y = torch.zeros(4096, 512), torch.zeros(4096, 512)
        return model, torch.optim.Adam(model.parameters()), x, y

    def train_step(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    model, optimizer, x, y = make("meta")
    fit = coldstep.would_fit(train_step, model, optimizer, x, y, memory="24MiB")
    held = {row.what: row.bytes for row in fit.held}
    one = (512 * 512 + 512) * 4
    print(fit.fits, held["parameters"] == 4 * one, held["optimizer state"] == 8 * one + 8 * 4)
    print(held["batch"] == 2 * 4096 * 512 * 4, held["activations saved for the backward"] >= 4 * 4096 * 512 * 4)
    remedies = {row.name: row for row in fit.remedies}
    print(sorted(remedies), all(row.peak_bytes < fit.peak_bytes for row in remedies.values()))
    print(next(model.parameters()).device.type, next(model.parameters()).grad, len(optimizer.state))

    model, optimizer, x, y = make("cpu")  # the same of what is there, in a closure, and left as it is
    again = coldstep.would_fit(lambda x, y: train_step(model, optimizer, x, y), x, y, memory="1GiB")
    print(again.peak_bytes == fit.peak_bytes, again.fits, again.remedies)
    print(next(model.parameters()).grad, len(optimizer.state), type(next(model.parameters()).data).__name__)
    lone = torch.nn.Linear(512, 512)
    sgd = torch.optim.SGD(lone.parameters())
    print([row.why for row in coldstep.would_fit(train_step, lone, sgd, x[:1], y[:1], memory="1MiB").remedies])
    print(fit)
"""


@pytest.mark.torch
def test_torch_is_run_on_tensors_without_contents(tmp_path: Path) -> None:
    lines = said(TORCH, tmp_path)
    no_batch = "the first dimension of the tensors among the arguments is 1"
    assert lines[:7] == [
        "False True True",
        "True True",
        "['batch', 'dtype', 'rematerialisation'] True",
        "meta None 0",
        "True True []",
        "None 0 Tensor",
        f"['', '{no_batch}', 'no row of like modules in the module']",
    ]
    assert lines[7].startswith("does not fit into 24.0 MiB: ")
    assert lines[-2].startswith("  As eager PyTorch runs it")
    assert lines[-1].startswith("  On a CPU the process holds more")


HELD = """
    import torch
    import coldstep

    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))
    kept = {"optimizer": torch.optim.Adam(model.parameters())}
    scheduler = torch.optim.lr_scheduler.StepLR(kept["optimizer"], 1)
    x = torch.zeros(64, 256)
    model(x).sum().backward()
    before = model[0].weight.grad

    def compute(x):
        return model(x).square().mean()

    def train_step(x):
        kept["optimizer"].zero_grad()
        loss = compute(x)
        loss.backward()
        kept["optimizer"].step()
        scheduler.step()
        return loss

    class Trainer:
        def __init__(self):
            self.model, self.optimizer, self.trainer, self.nothing = model, kept["optimizer"], self, None

        def step(self, x):
            self.optimizer.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            return loss

    nothing = None
    for step in (train_step, Trainer().step, lambda x: train_step(x) if nothing is None else None):
        fit = coldstep.would_fit(step, x, memory="1GiB")
        print({row.what: row.bytes for row in fit.held if row.what in ("parameters", "optimizer state", "gradients")})
    print(model[0].weight.grad is before, len(kept["optimizer"].state), scheduler.last_epoch)
    locked = Trainer()
    locked.log = open("log", "w")
    try:
        coldstep.would_fit(locked.step, x)
    except ValueError as error:
        print(error)
"""


@pytest.mark.torch
def test_what_helpers_containers_and_objects_hold_is_copied_and_counted_too(tmp_path: Path) -> None:
    *found, kept, refused = said(HELD, tmp_path)
    one = 4 * (256 * 256 + 256) * 4
    held = {"parameters": one, "gradients": one, "optimizer state": 2 * one + 8 * 4}
    assert [ast.literal_eval(line) for line in found] == [held] * 3
    assert kept == "True 0 0"
    assert refused in (
        "the step holds on to what cannot be copied: cannot pickle '_io.TextIOWrapper' object",
        "the step holds on to what cannot be copied: cannot pickle 'TextIOWrapper' instances",  # Python 3.13
    )


LEFT = """
    import collections, random
    import numpy as np
    import torch
    import coldstep

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, counts, seen, last, calls = [], [0], {}, collections.deque(maxlen=2), 0

    class Meter:
        pass

    meter = Meter()

    def note(loss):
        global calls
        calls += 1
        counts[0] += 1
        meter.total = loss

    def step(x):
        random.random(), np.random.rand()
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        last.append(loss.detach())
        seen["loss"] = loss.detach()
        note(loss.detach())

    def states():
        return random.getstate(), str(np.random.get_state())

    before, x = states(), torch.ones(2, 4)
    fit = coldstep.would_fit(step, x, memory="1B")
    print(losses, counts, seen, list(last), calls, vars(meter), states() == before)
    print(any("own code has run" in note for note in fit.notes))
    before = random.getstate()
    coldstep.forecast(lambda x: x * 2, [x])
    print(random.getstate() == before)
    step(x)
    print(float(torch.stack(losses).mean()) > 0)
"""


@pytest.mark.torch
def test_what_a_step_changes_is_afterwards_as_before(tmp_path: Path) -> None:
    assert said(LEFT, tmp_path) == ["[] [0] {} [] 0 {} True", "True", "True", "True"]


TORCH_XLA = """
    import torch, torch_xla
    import coldstep

    with torch.device(torch_xla.device()):  # nothing is there before the first sync
        model = torch.nn.Sequential(*(torch.nn.Linear(512, 512, bias=False) for _ in range(4)), torch.nn.Tanh())
        x, y = torch.zeros(4096, 512), torch.zeros(4096, 512)
    optimizer = torch.optim.Adam(model.parameters())

    def train_step(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        return loss.detach()

    fit = coldstep.would_fit(train_step, model, optimizer, x, y, memory="24MiB")
    held = {row.what: row.bytes for row in fit.held if row.within is None}
    one = 512 * 512 * 4
    print(fit.stack, fit.fits, [held[what] // one for what in ("parameters", "optimizer state", "batch")])
    print([(row.what, row.bytes == 4 * one) for row in fit.held if row.within == "results beside the arguments"])
    print(round(fit.argument_bytes / one, 2), round(fit.reused_bytes / one, 2), fit.temp_bytes >= 32 * one)
    print(round(held["results beside the arguments"] / one, 1))  # each gradient, and that of which it is the transpose
    program = fit.argument_bytes + fit.output_bytes - fit.reused_bytes + fit.temp_bytes
    print(fit.peak_bytes == program + fit.compiler_bytes, held["what compiling leaves"] == fit.compiler_bytes)
    print(1 << 20 < fit.compiler_bytes < 1 << 29)
    turned = coldstep.would_fit(lambda x: (x.T, (x @ model[0].weight).sum()), x)
    print(round(turned.output_bytes / one / 8, 1))  # the batch, transposed; what it is a view of is an argument
    plain = torch.optim.SGD(model.parameters())  # no state: the first program is the second
    sgd = coldstep.would_fit(train_step, model, plain, x, y)
    print([round(size / one, 1) for size in (sgd.argument_bytes, sgd.reused_bytes)])
    half = next(row for row in fit.remedies if row.name == "batch")
    print(half.peak_bytes < fit.peak_bytes - 16 * one)
    again = coldstep.would_fit(lambda x, y: train_step(model, optimizer, x, y), x, y, memory="1GiB")
    print(again.peak_bytes == fit.peak_bytes, again.fits, again.remedies)
    reads = lambda: train_step(model, optimizer, x, y).item()
    syncs = lambda: (torch_xla.sync(), train_step(model, optimizer, x, y))
    for step in (reads, syncs):
        try:
            coldstep.would_fit(step)
        except ValueError as error:
            print(error)
    print(next(model.parameters()).grad, len(optimizer.state))
    with coldstep.trace("run.pftrace"):
        for _ in range(3):
            with coldstep.step("train"):
                loss = train_step(model, optimizer, x, y)
    print(float(loss) >= 0, [row.variant.n for row in coldstep.load("run.pftrace").compiles])
"""


@pytest.mark.torch_xla
def test_torch_xlas_program_is_compiled_and_not_run(tmp_path: Path) -> None:
    lines = said(TORCH_XLA, tmp_path)
    assert lines == [
        "torch_xla False [4, 8, 16]",
        "[('gradients', True)]",
        "28.0 12.0 True",
        "8.0",
        "True True",
        "True",
        "1.0",
        "[20.0, 4.0]",
        "True",
        "True True []",
        "the step reads a value of a tensor, for which torch_xla runs the pending graph: it has more than one program",
        "the step syncs 2 times: it has more than one program",
        "None 0",
        "True [1, 2]",
    ]


def test_a_limit_is_read_as_people_write_it() -> None:
    assert limit("32GiB") == 32 << 30
    assert limit("1.5 GB") == 1_500_000_000
    assert (limit(7), limit(0.9 * 2**30), limit(None)) == (7, 966367641, None)
    for wrong in ("lots", "32iB", "-5", "0", -5, 0.0, float("nan"), True):
        with pytest.raises(ValueError, match=f"memory={wrong!r} is no size such as '32GiB'"):
            coldstep.would_fit(len, memory=wrong)


def test_what_is_of_no_framework_is_refused_in_a_line() -> None:
    with pytest.raises(ValueError, match="neither arrays of JAX nor tensors"):
        coldstep.would_fit(len, [1, 2], memory="1GiB")


@pytest.mark.torch
def test_a_fit_and_a_forecast_name_one_stack(tmp_path: Path) -> None:
    program = """
        import torch
        import coldstep

        model = torch.nn.Linear(4, 4)
        step = lambda x: model(x).sum()
        x = torch.ones(2, 4)
        for fn in (step, torch.compile(step, backend="eager")):
            print(coldstep.would_fit(fn, x, memory="1GiB").stack, coldstep.forecast(fn, [(x,)]).stack)
    """
    assert said(program, tmp_path) == ["dynamo dynamo", "dynamo dynamo"]
