"""Trains a Q-network with an exploration rate that falls from step to step."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

N_ACTIONS, OBS_DIM, TOTAL_TIMESTEPS = 3, 4, 12


def init_params(key, hidden=16):
    k1, k2 = jax.random.split(key)
    return {
        "w1": jax.random.normal(k1, (OBS_DIM, hidden)) * 0.3,
        "b1": jnp.zeros(hidden),
        "w2": jax.random.normal(k2, (hidden, N_ACTIONS)) * 0.3,
    }


def q_values(params, obs):
    return jax.nn.relu(obs @ params["w1"] + params["b1"]) @ params["w2"]


@partial(jax.jit, static_argnames=("epsilon",))
def epsilon_greedy_policy(params, obs, key, epsilon):
    key_explore, key_action = jax.random.split(key)
    random_action = jax.random.randint(key_action, (), 0, N_ACTIONS)
    greedy_action = jnp.argmax(q_values(params, obs))
    return jnp.where(jax.random.uniform(key_explore) < epsilon, random_action, greedy_action)


@partial(jax.jit, static_argnames=("optimizer", "gamma"))
def update(params, opt_state, batch, optimizer, gamma):
    def loss_fn(params):
        obs, action, reward, next_obs = batch
        target = reward + gamma * q_values(params, next_obs).max(-1)
        chosen = jnp.take_along_axis(q_values(params, obs), action[:, None], axis=1)[:, 0]
        return jnp.mean(optax.huber_loss(chosen, jax.lax.stop_gradient(target)))

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


def linear_schedule(step, start=1.0, end=0.1, fraction=0.8):
    return max(end, start + (end - start) * step / (fraction * TOTAL_TIMESTEPS))


key = jax.random.key(0)
params = init_params(key)
optimizer = optax.adam(1e-2)
opt_state = optimizer.init(params)
env = np.random.default_rng(0)
obs = env.normal(size=OBS_DIM).astype("float32")
for step in range(TOTAL_TIMESTEPS):
    action = epsilon_greedy_policy(params, obs, jax.random.fold_in(key, step), epsilon=linear_schedule(step))
    next_obs = (0.9 * obs + 0.1 * (int(action) - 1)).astype("float32")
    reward = np.float32(-np.abs(next_obs).sum())
    batch = (obs[None], jnp.asarray(action)[None], reward[None], next_obs[None])
    params, opt_state, loss = update(params, opt_state, batch, optimizer, 0.99)
    obs = next_obs
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/mlaux1/rl-blox/pull/157"
# asked = "Training is slow, and takes ever more memory."
# answer = """\
# What is in static_argnames must be constant: JAX compiles a new function for each value. Pass it as an ordinary \
# argument."""
# stack = "jax"
# mechanism = "static_argument"
# argument = "epsilon"
# before = "1.0"
# after = "0.906"
# line = 26
# lines_accepted = [27, 48, 58]
# compiles = [11, 1]
# counted = "compiles of epsilon_greedy_policy (jax_log_compiles)"
# cure = "Take epsilon out of static_argnames."
# cure_lines = [
#   {line = 26, code = "@jax.jit"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
