"""Acts in an environment with an agent that jits its policy where it acts."""

import jax
import jax.numpy as jnp


class Agent:
    def __init__(self, key, observation_size=4, actions=3):
        first, second = jax.random.split(key)
        self.params = {
            "hidden": jax.random.normal(first, (observation_size, 16)) / 2,
            "out": jax.random.normal(second, (16, actions)) / 4,
        }

    def policy(self, params, observation):
        return jax.nn.softmax(jnp.tanh(observation @ params["hidden"]) @ params["out"])

    def act(self, observation):
        return jax.jit(self.policy)(self.params, observation)


agent = Agent(jax.random.key(0))
observation = jnp.ones(4)
for _ in range(6):
    probabilities = agent.act(observation)
    observation = jnp.roll(observation, 1) * 0.9 + probabilities.max()
    print("value", repr(float(probabilities.max())))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/19570"
# asked = "jax.jit(foo.f) called twice traces f twice."
# answer = """\
# Each access makes a new bound method, and the cache goes by identity: keep one, self.f = self.f, or the jitted \
# function."""
# stack = "jax"
# mechanism = "new_function"
# argument = "policy"
# before = ""
# after = ""
# line = 19
# lines_accepted = [7, 15, 18, 25]
# compiles = [6, 1]
# counted = "compiles of policy (jax_log_compiles)"
# cure = "Keep the jitted method."
# cure_lines = [
#   {line = 8, code = '''
#     def __init__(self, key, observation_size=4, actions=3):
#         self.policy = jax.jit(self.policy)'''},
#   {line = 19, code = "        return self.policy(self.params, observation)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
