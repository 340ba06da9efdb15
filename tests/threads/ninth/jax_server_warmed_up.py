"""Compiles a model for each size of batch before it serves."""

import jax
import jax.numpy as jnp
import numpy as np

device = jax.devices()[0]
keys = jax.random.split(jax.random.key(0), 2)
params = {"table": jax.random.normal(keys[0], (32, 16)), "out": jax.random.normal(keys[1], (16, 32)) / 4}


@jax.jit
def next_tokens(params, tokens, positions):
    states = params["table"][tokens] * jnp.cos(positions[:, None] * 0.1)
    return jnp.argmax(jnp.tanh(states) @ params["out"], -1)


def warm_up(sizes):
    for size in sizes:
        zeros = jnp.zeros(size, jnp.int32)
        next_tokens(params, zeros, zeros).block_until_ready()


def serve(requests, sizes):
    size = next(size for size in sizes if size >= len(requests))
    tokens, positions = np.zeros((2, size), np.int32)
    tokens[: len(requests)] = requests
    positions[: len(requests)] = np.arange(len(requests))
    batch = jax.device_put((tokens, positions), device)
    return next_tokens(params, *batch)[: len(requests)]


warm_up((4, 8))
for count in (3, 6, 4, 8, 2):
    print("value", int(serve(np.arange(count) * 3 % 32, (4, 8)).sum()))
# /// thread
# address = "https://github.com/vllm-project/tpu-inference/pull/176"
# asked = "Graphs are compiled while serving, although each size was warmed up."
# answer = """\
# Served arguments are placed with device_put, those of the warm-up are not: place them alike in the warm-up."""
# stack = "jax"
# mechanism = "committed"
# argument = "tokens"
# before = "uncommitted"
# after = "committed to the CPU device"
# line = 20
# lines_accepted = [21, 29, 30, 33]
# compiles = [4, 2]
# counted = "compiles of next_tokens (jax_log_compiles)"
# cure = "device_put in the warm-up."
# cure_lines = [
#   {line = 20, code = "        zeros = jax.device_put(jnp.zeros(size, jnp.int32), device)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
