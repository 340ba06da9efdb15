"""Fits a potential; the step is warmed up with keywords, and the loop passes by position."""

import jax
import jax.numpy as jnp
import optax

optimizer = optax.adam(0.05)


def energy(params, positions):
    distances = jnp.sqrt(jnp.sum(positions**2, axis=-1) + params["soft"] ** 2)
    return jnp.sum(params["depth"] * jnp.exp(-distances))


@jax.jit
def fit_step(params, opt_state, positions, reference):
    loss, grads = jax.value_and_grad(lambda params: (energy(params, positions) - reference) ** 2)(params)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


def warm_up(params, opt_state, positions):
    """Compile before the clock starts."""
    fit_step(params=params, opt_state=opt_state, positions=positions, reference=jnp.float32(0.0))


params = {"soft": jnp.float32(1.0), "depth": jnp.ones(3, "float32")}
opt_state = optimizer.init(params)
positions = jax.random.normal(jax.random.key(0), (3, 3))
warm_up(params, opt_state, positions)
for _ in range(5):
    params, opt_state, loss = fit_step(params, opt_state, positions, jnp.float32(2.0))
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/jax-ml/jax/pull/595"
# asked = "Does jit treat f(1, 2) and f(1, y=2) as the same call?"
# answer = """\
# No: keywords are not matched with parameters, so these are different signatures, and the latter does not hit \
# the cache of the former."""
# stack = "jax"
# mechanism = "keyword"
# argument = "params"
# before = ""
# after = ""
# line = 24
# lines_accepted = [32, 32]
# compiles = [2, 1]
# counted = "compiles of fit_step (jax_log_compiles)"
# cure = "Pass by position in both."
# cure_lines = [
#   {line = 24, code = "    fit_step(params, opt_state, positions, jnp.float32(0.0))"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
