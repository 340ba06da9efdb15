"""Fits a scene to several observations, each with a point spread function of its own."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class ConvolutionRenderer:
    def __init__(self, psf):
        self.psf = psf

    def __call__(self, model):
        return jax.scipy.signal.convolve2d(model, self.psf, mode="same")


class Observation(eqx.Module):
    data: jax.Array
    weights: jax.Array
    psf: jax.Array
    renderer: Callable = eqx.field(static=True, default=None)

    def match(self):
        return Observation(self.data, self.weights, self.psf, ConvolutionRenderer(self.psf))

    def log_likelihood(self, model):
        return -0.5 * jnp.sum(self.weights * jnp.square(self.renderer(model) - self.data))


class Scene(eqx.Module):
    sources: jax.Array
    spread: jax.Array

    def __call__(self):
        grid = jnp.arange(12.0)
        profile = jnp.exp(-jnp.square(grid - 5.5) / (2.0 * jnp.square(self.spread)))
        return self.sources * profile[:, None] * profile[None, :]


@eqx.filter_jit
def _make_step(scene, opt_state, observation, optim):
    loss, grads = eqx.filter_value_and_grad(lambda scene: -observation.log_likelihood(scene()))(scene)
    updates, opt_state = optim.update(grads, opt_state)
    return eqx.apply_updates(scene, updates), opt_state, loss


def fit(scene, observation, optim, steps=5):
    observation = observation.match()
    opt_state = optim.init(eqx.filter(scene, eqx.is_array))
    for _ in range(steps):
        scene, opt_state, loss = _make_step(scene, opt_state, observation, optim)
    return scene, loss


optim = optax.adam(0.05)
scene = Scene(jnp.array(1.0, "float32"), jnp.array(2.0, "float32"))
for number in range(5):
    key = jax.random.key(number)
    psf = jax.nn.softmax(jax.random.normal(key, (9,))).reshape(3, 3)
    observation = Observation(jax.random.uniform(key, (12, 12)), jnp.ones((12, 12)), psf)
    scene, loss = fit(scene, observation, optim)
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/pmelchior/scarlet2/issues/112"
# asked = "Memory continues to grow as fit is called for one observation after the other."
# answer = """\
# Observation.match creates a renderer up front; another point spread function is another renderer, and a \
# cache miss. Create the renderer within log_likelihood, from an array that is traced."""
# stack = "jax"
# mechanism = "static_argument"
# argument = "observation.renderer"
# before = "ConvolutionRenderer"
# after = "ConvolutionRenderer"
# line = 26
# lines_accepted = [23, 29, 42, 43, 50, 53]
# compiles = [5, 1]
# counted = "compiles of _make_step (jax_log_compiles)"
# cure = "Create the renderer where it renders."
# cure_lines = [
#   {line = 26, code = "        return self"},
#   {line = 29, code = """
#         renderer = ConvolutionRenderer(self.psf)
#         return -0.5 * jnp.sum(self.weights * jnp.square(renderer(model) - self.data))"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
