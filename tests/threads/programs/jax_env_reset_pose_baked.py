"""Reset a toy environment at poses that the script chooses and print where the agent stands after one step."""

import jax
import jax.numpy as jnp


class PoseEnv:
    def __init__(self):
        self.init_pos = jnp.zeros(2)
        self.reset = jax.jit(self._reset)

    def set_initial_state(self, init_pos):
        self.init_pos = init_pos

    def _reset(self, key):
        noise = 0.01 * jax.random.normal(key, (2,))
        return self.init_pos + noise


@jax.jit
def env_step(position, action):
    return position + 0.1 * action


env = PoseEnv()
action = jnp.array([1.0, -1.0])
for i in range(4):
    env.set_initial_state(jnp.array([float(i), 2.0 * i]))
    position = env_step(env.reset(jax.random.key(i)), action)
    print("value", repr(float(position.sum())))
# /// thread
# address = "https://github.com/google/brax/issues/440"
# asked = "set_initial_state works before the first reset only; every later reset puts the agent at the first pose."
# answer = "The jitted reset keeps the attribute's value of its trace; a pose that changes must come in as an argument."
# stack = "jax"
# mechanism = "baked_constant"
# argument = "self.init_pos"
# before = "Array([0., 0.])"
# after = "Array([1., 2.])"
# line = 17
# lines_accepted = [10, 13, 15, 28, 29]
# compiles = [1, 1]
# counted = "compiles of jit(_reset) in JAX_LOG_COMPILES; the values of resets 2 to 4 are wrong without the cure"
# cure = "Pass the pose to the jitted reset: _reset(self, key, init_pos), called with env.init_pos."
# cure_lines = [
#   {line = 15, code = "    def _reset(self, key, init_pos):"},
#   {line = 17, code = "        return init_pos + noise"},
#   {line = 29, code = "    position = env_step(env.reset(jax.random.key(i), env.init_pos), action)"},
# ]
# cure_environment = {}
# losses = "other"
# ///
