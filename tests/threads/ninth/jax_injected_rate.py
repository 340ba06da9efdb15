"""Trains with a learning rate that is injected, and parameters and moments in bfloat16."""

import jax
import jax.numpy as jnp
import optax

optimizer = optax.inject_hyperparams(optax.adamw, hyperparam_dtype=jnp.float32)(learning_rate=1e-2)


def loss(params, x, y):
    hidden = jnp.tanh(x @ params["first"])
    return jnp.mean(jnp.square(hidden @ params["second"] - y))


@jax.jit
def train_step(params, opt_state, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, value


keys = jax.random.split(jax.random.key(0), 3)
params = {"first": jax.random.normal(keys[0], (8, 16)) / 3, "second": jax.random.normal(keys[1], (16, 1)) / 4}
params = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
opt_state = optimizer.init(params)
x = jax.random.normal(keys[2], (32, 8))
y = x.sum(1, keepdims=True)
for _ in range(5):
    params, opt_state, value = train_step(params, opt_state, x, y)
    print("loss", repr(float(value)))
# /// thread
# address = "https://github.com/google/tunix/pull/1880"
# asked = "The moments of an optimizer with inject_hyperparams change their type in an update, bfloat16 to float32."
# answer = """\
# The injected float32 hyperparameters promote the state: keep the dtypes that it was initialized with across \
# updates."""
# stack = "jax"
# mechanism = "dtype"
# argument = "opt_state"
# before = "bfloat16"
# after = "float32"
# line = 18
# lines_accepted = [7, 25, 29]
# compiles = [2, 1]
# counted = "compiles of train_step (jax_log_compiles)"
# cure = "Cast the new state as the old one was."
# cure_lines = [
#   {line = 18, code = '''
#     updates, new_state = optimizer.update(grads, opt_state, params)
#     opt_state = jax.tree.map(lambda new, old: jnp.asarray(new, jnp.result_type(old)), new_state, opt_state)'''},
# ]
# cure_environment = {}
# losses = "other"
# ///
