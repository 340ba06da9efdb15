"""Minimizes a function with a trust region, whose solver gets the damping of the step before."""

import jax
import jax.numpy as jnp


def rosenbrock(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@jax.jit
def solve_subproblem(g, h, radius, initial_alpha=None):
    alpha = 0.001 * jnp.linalg.norm(g) / radius if initial_alpha is None else initial_alpha

    def shrink(alpha, _):
        step = jnp.linalg.solve(h + alpha * jnp.eye(g.size), -g)
        longer = jnp.linalg.norm(step) > radius
        return jnp.where(longer, 2.0 * alpha + 1e-3, alpha), None

    alpha, _ = jax.lax.scan(shrink, alpha, length=12)
    return jnp.linalg.solve(h + alpha * jnp.eye(g.size), -g), 0.5 * alpha


class TrustRegion:
    def __init__(self, fun, radius=0.5):
        self.value = jax.jit(fun)
        self.grad = jax.jit(jax.grad(fun))
        self.hess = jax.jit(jax.hessian(fun))
        self.radius = radius

    def minimize(self, x, steps=5):
        alpha = None
        for _ in range(steps):
            step, alpha = solve_subproblem(self.grad(x), self.hess(x), self.radius, alpha)
            x = x + step
            print("loss", repr(float(self.value(x))))
        return x


TrustRegion(rosenbrock).minimize(jnp.array([-1.0, 1.0, 0.5], "float32"))
# /// thread
# address = "https://github.com/PlasmaControl/DESC/issues/1781"
# asked = "The trust region subproblem's solver is compiled twice: alpha is None first, then a float."
# answer = "None is another structure than a number: set default values as their final type."
# stack = "jax"
# mechanism = "type"
# argument = "initial_alpha"
# before = "None"
# after = ""
# line = 32
# lines_accepted = [34, 12]
# compiles = [2, 1]
# counted = "compiles of solve_subproblem (jax_log_compiles)"
# cure = "Begin with a number."
# cure_lines = [
#   {line = 32, code = "        alpha = 0.001 * jnp.linalg.norm(self.grad(x)) / self.radius"},
# ]
# cure_environment = {}
# losses = "close"
# ///
