"""Tracks points through videos of different lengths with a jitted model."""

import jax
import jax.numpy as jnp


@jax.jit
def track(params, frames):
    features = jnp.tanh(frames @ params["embed"])
    return jnp.cumsum(features @ params["head"], axis=0)[-1]


params = {"embed": jnp.eye(6) * 0.5, "head": jnp.ones(6) * 0.1}
for length in (12, 17, 9, 14):
    frames = jax.random.normal(jax.random.key(length), (length, 6))
    print("value", repr(float(track(params, frames))))
# /// thread
# address = "https://github.com/google-deepmind/tapnet/issues/44"
# asked = "What is going on when recompilation happens in a for loop over videos?"
# answer = """\
# The main factor for slow inference is the change in the input tensor's size, which causes a recompilation of \
# the jitted model.apply; the size of frames has to be fixed."""
# stack = "jax"
# mechanism = "shape"
# argument = "frames"
# before = "float32[12,6]"
# after = "float32[17,6]"
# line = 8
# lines_accepted = [7, 15]
# compiles = [4, 1]
# counted = "compiles of track (jax_log_compiles)"
# cure = "Pad the frames to one length with zeros."
# cure_lines = [
#   {line = 15, code = """
#     frames = jax.random.normal(jax.random.key(length), (length, 6))
#     frames = jnp.pad(frames, ((0, 32 - length), (0, 0)))"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
