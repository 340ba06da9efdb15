"""Warm a sharded log-probability function up before a server starts, then serve with the sampler's logits."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
batch, vocabulary = 4, 32


@jax.jit
def gather_logprobs(logits, tokens):
    logprobs = jax.nn.log_softmax(logits, axis=-1)
    return jnp.take_along_axis(logprobs, tokens[:, None], axis=-1)[:, 0]


def warm_up():
    logits = np.zeros((batch, vocabulary), np.float32)
    logits = jax.device_put(logits, NamedSharding(mesh, PartitionSpec("data", "model")))
    gather_logprobs(logits, np.zeros(batch, np.int32))


def sample(rng):
    logits = jax.device_put(rng.normal(size=(batch, vocabulary)), NamedSharding(mesh, PartitionSpec("data", None)))
    return logits.astype(jnp.float32), rng.integers(vocabulary, size=batch, dtype=np.int32)


warm_up()
rng = np.random.default_rng(0)
for _ in range(3):
    logits, tokens = sample(rng)
    print("value", repr(float(gather_logprobs(logits, tokens).sum())))
# /// thread
# address = "https://github.com/vllm-project/tpu-inference/pull/3589"
# asked = "The server compiles the gathering of log-probabilities while it serves, although it is warmed up."
# answer = """\
# The warm-up's logits have another sharding than those that the sampler returns, which is silently a miss of the \
# jit cache; warm up with the sharding of the serving time."""
# stack = "jax"
# mechanism = "sharding"
# argument = "logits"
# before = "PartitionSpec('data', 'model')"
# after = "PartitionSpec('data', None)"
# line = 24
# lines_accepted = [17, 25, 29, 37]
# compiles = [2, 1]
# counted = "XLA compiles of jit(gather_logprobs)"
# cure = "Warm up with logits that are sharded as the sampler's are."
# cure_lines = [
#   {line = 24, code = "    logits = jax.device_put(logits, NamedSharding(mesh, PartitionSpec(\"data\", None)))"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
