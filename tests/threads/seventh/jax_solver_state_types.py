"""Fits a logistic regression with a solver whose state is updated in a jitted function."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class SolverState(NamedTuple):
    iter_num: jax.Array
    stepsize: jax.Array
    error: jax.Array


class GradientDescent:
    def __init__(self, fun, stepsize=1.0, decrease=0.8):
        self.value_and_grad = jax.value_and_grad(fun)
        self.stepsize = stepsize
        self.decrease = decrease
        self.update = jax.jit(self._update)

    def init_state(self):
        return SolverState(iter_num=jnp.asarray(0), stepsize=jnp.asarray(self.stepsize), error=jnp.asarray(jnp.inf))

    def _update(self, params, state, data):
        value, grad = self.value_and_grad(params, data)
        trial = params - state.stepsize * grad
        worse = self.value_and_grad(trial, data)[0] > value
        stepsize = jnp.where(worse, state.stepsize * self.decrease, state.stepsize).astype(grad.dtype)
        error = jnp.linalg.norm(grad)
        return params - stepsize * grad, SolverState(state.iter_num + 1, stepsize, error)


def loss_fun(params, data):
    features, labels = data
    return jnp.mean(jnp.logaddexp(0.0, -labels * (features @ params)))


key = jax.random.key(0)
features = jax.random.normal(key, (40, 6), "float32")
labels = jnp.sign(features[:, 0] + 0.1).astype("float32")
solver = GradientDescent(loss_fun)
params, state = jnp.zeros(6, "float32"), solver.init_state()
for _ in range(5):
    params, state = solver.update(params, state, (features, labels))
    print("loss", repr(float(loss_fun(params, (features, labels)))))
# /// thread
# address = "https://github.com/google/jaxopt/issues/451"
# asked = "update is compiled again in the second iteration, in many solvers."
# answer = """\
# The state of init_state and that of update have an inconsistent weak_type: give the attributes their dtypes \
# in init_state."""
# stack = "jax"
# mechanism = "weak_type"
# argument = "state.stepsize"
# before = ""
# after = ""
# line = 23
# lines_accepted = [45, 43, 20]
# compiles = [2, 1]
# counted = "compiles of _update (jax_log_compiles)"
# cure = "Give the state its dtypes."
# cure_lines = [
#   {line = 23, code = """
#         zero = jnp.zeros((), "float32")
#         return SolverState(jnp.zeros((), "int32"), zero + self.stepsize, zero + jnp.inf)"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
