"""Solve a block system once when the problem is built, then again for trial shapes on a chosen device."""

import jax
import jax.numpy as jnp

device = jax.devices()[0]


@jax.jit
def block_solve(blocks, rhs):
    return jnp.linalg.solve(blocks, rhs[..., None])[..., 0]


blocks = jax.device_put(jnp.eye(4) * 2.0 + 0.1 * jnp.arange(16.0).reshape(4, 4), device)
rhs = jax.device_put(jnp.ones(4), device)
baseline = block_solve(blocks, rhs)
print("value", repr(float(baseline.sum())))

with jax.default_device(device):
    for trial in range(3):
        rhs = jax.device_put(rhs * (1.0 + 0.1 * trial), device)
        solution = block_solve(blocks, rhs)
        print("value", repr(float((solution - baseline).sum())))
# /// thread
# address = "https://github.com/uwplasma/vmex/pull/325"
# asked = """\
# The block solver compiles once for each default-device context although all its arguments are on one device."""
# answer = """\
# JAX keys a compiled function on the jax.default_device in effect; where all the arguments are committed, call \
# it with the context cleared, jax.default_device(None)."""
# stack = "jax"
# mechanism = "config"
# argument = "jax.default_device"
# before = "None"
# after = "TFRT_CPU_0"
# line = 19
# lines_accepted = [9, 10, 16, 22]
# compiles = [2, 1]
# counted = "XLA compiles of jit(block_solve)"
# cure = "Clear the context around the call."
# cure_lines = [
#   {line = 22, code = """
#         with jax.default_device(None):
#             solution = block_solve(blocks, rhs)"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
