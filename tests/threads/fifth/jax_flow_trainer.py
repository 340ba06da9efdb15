"""Trains a velocity field by flow matching with a solver class, a trainer and Flax's train state."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.training import train_state


class VelocityField(nn.Module):
    hidden: int = 32
    output_dim: int = 2

    @nn.compact
    def __call__(self, t, x, condition):
        h = jnp.concatenate([t, x, condition], axis=-1)
        for _ in range(2):
            h = nn.silu(nn.Dense(self.hidden)(h))
        return nn.Dense(self.output_dim)(h)


def match_linear(src, tgt, epsilon=0.5, iterations=10):
    """Sinkhorn's coupling of a batch."""
    kernel = jnp.exp(-jnp.square(src[:, None] - tgt[None]).sum(-1) / epsilon)
    u, v = jnp.ones(src.shape[0]), jnp.ones(tgt.shape[0])
    for _ in range(iterations):
        u = 1.0 / (kernel @ v + 1e-8)
        v = 1.0 / (kernel.T @ u + 1e-8)
    return u[:, None] * kernel * v[None]


class OTFlowMatching:
    def __init__(self, vf, optimizer, rng):
        self.vf = vf
        params = vf.init(rng, jnp.ones((1, 1)), jnp.ones((1, 2)), jnp.ones((1, 3)))
        self.vf_state = train_state.TrainState.create(apply_fn=vf.apply, params=params, tx=optimizer)
        self.vf_step_fn = self._get_vf_step_fn()

    def _get_vf_step_fn(self):
        def vf_step_fn(rng, vf_state, source, target, condition):
            def loss_fn(params, t, source, target, condition):
                x_t = (1.0 - t) * source + t * target
                v_t = vf_state.apply_fn(params, t, x_t, condition)
                return jnp.mean(jnp.square(v_t - (target - source)))

            rng_match, rng_t = jax.random.split(rng)
            tmat = match_linear(source, target)
            matched = jax.random.categorical(rng_match, jnp.log(tmat + 1e-12), axis=-1)
            t = jax.random.uniform(rng_t, (source.shape[0], 1))
            loss, grads = jax.value_and_grad(loss_fn)(vf_state.params, t, source, target[matched], condition)
            return vf_state.apply_gradients(grads=grads), loss

        return vf_step_fn

    def step_fn(self, rng, batch):
        self.vf_state, loss = self.vf_step_fn(rng, self.vf_state, *batch)
        return loss


def train(solver, num_iterations, batch_size=32):
    rng, data = jax.random.key(0), np.random.default_rng(0)
    for iteration in range(num_iterations):
        source = data.normal(size=(batch_size, 2)).astype("float32")
        target = data.normal(3.0, 0.5, size=(batch_size, 2)).astype("float32")
        condition = np.eye(3, dtype="float32")[data.integers(0, 3, batch_size)]
        loss = solver.step_fn(jax.random.fold_in(rng, iteration), (source, target, condition))
        print("loss", repr(float(loss)))


train(OTFlowMatching(VelocityField(), optax.adam(1e-2), jax.random.key(1)), 8)
# /// thread
# address = "https://github.com/theislab/CellFlow/issues/30"
# asked = "Training is extremely slow, with Sinkhorn as the main bottleneck."
# answer = "The solver's step function was not jitted; jit it where it is made."
# stack = "jax"
# mechanism = "silent_eager"
# argument = "vf_step_fn"
# before = ""
# after = ""
# line = 54
# lines_accepted = [27, 38, 41, 48, 51, 52, 57, 63, 67]
# compiles = [125, 32]
# counted = "compiles (jax_log_compiles); those of model.init stay"
# cure = "Decorate the step with jax.jit."
# cure_lines = [
#   {line = 41, code = """
#         @jax.jit
#         def vf_step_fn(rng, vf_state, source, target, condition):"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
