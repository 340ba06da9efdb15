"""Add up named cost terms with a jitted function; each scenario names its terms after itself."""

import jax
import jax.numpy as jnp


@jax.jit
def total_cost(terms):
    return sum(jnp.sum(jnp.square(term)) for term in terms.values())


def make_terms(scenario, scale):
    return {
        f"{scenario}_tracking": scale * jnp.ones(3),
        f"{scenario}_effort": 0.1 * scale * jnp.ones(2),
    }


for number, scenario in enumerate(["takeoff", "cruise", "turn", "landing"], start=1):
    terms = make_terms(scenario, float(number))
    print("value", repr(float(total_cost(terms))))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/14589"
# asked = "A jitted sum over a dict's values does not use its cache for dicts of the same shape with other keys."
# answer = "The keys are part of the argument's tree and the function may depend on them; use the same keys."
# stack = "jax"
# mechanism = "pytree"
# argument = "terms"
# before = "{'takeoff_effort', 'takeoff_tracking'}"
# after = "{'cruise_effort', 'cruise_tracking'}"
# line = 21
# lines_accepted = [7, 8, 14, 15, 20]
# compiles = [4, 1]
# counted = "compiles of jit(total_cost) in JAX_LOG_COMPILES"
# cure = "Name the terms the same in all scenarios."
# cure_lines = [
#   {line = 14, code = "        \"tracking\": scale * jnp.ones(3),"},
#   {line = 15, code = "        \"effort\": 0.1 * scale * jnp.ones(2),"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
