"""Generates images with a pipeline whose generation is jitted, for requests with other settings."""

from functools import partial

import jax
import jax.numpy as jnp
from flax import linen as nn


class UNet(nn.Module):
    channels: int = 16

    @nn.compact
    def __call__(self, latents, timestep, context):
        hidden = nn.Conv(self.channels, (3, 3))(latents)
        hidden = nn.silu(hidden + nn.Dense(self.channels)(context)[:, None, None, :] + timestep)
        return nn.Conv(latents.shape[-1], (3, 3))(hidden)


class DiffusionPipeline:
    def __init__(self, unet):
        self.unet = unet

    def __call__(self, prompt_embeds, params, key, num_inference_steps=8, guidance_scale=7.5):
        return _generate(self, prompt_embeds, params, key, num_inference_steps, guidance_scale)

    def generate(self, prompt_embeds, params, key, num_inference_steps, guidance_scale):
        context = jnp.concatenate([jnp.zeros_like(prompt_embeds), prompt_embeds])

        def loop_body(step, latents):
            timestep = 1.0 - step / num_inference_steps
            noise = self.unet.apply(params, jnp.concatenate([latents] * 2), timestep, context)
            unconditional, conditional = jnp.split(noise, 2)
            noise = unconditional + guidance_scale * (conditional - unconditional)
            return latents - noise / num_inference_steps

        latents = jax.random.normal(key, (prompt_embeds.shape[0], 8, 8, 4))
        return jax.lax.fori_loop(0, num_inference_steps, loop_body, latents)


@partial(jax.jit, static_argnums=(0, 4, 5))
def _generate(pipe, prompt_embeds, params, key, num_inference_steps, guidance_scale):
    return pipe.generate(prompt_embeds, params, key, num_inference_steps, guidance_scale)


unet = UNet()
params = unet.init(jax.random.key(0), jnp.ones((2, 8, 8, 4)), 0.0, jnp.ones((2, 6)))
pipeline = DiffusionPipeline(unet)
prompt = jax.random.normal(jax.random.key(1), (1, 6))
for number, scale in enumerate([7.5, 6.0, 9.0, 4.5, 12.0]):
    image = pipeline(prompt, params, jax.random.key(number), guidance_scale=scale)
    print("value", repr(float(image.mean())))
# /// thread
# address = "https://github.com/huggingface/diffusers/issues/927"
# asked = "Where another parameter than the prompt changes (width, scale, steps), a call takes a minute. Expected?"
# answer = """\
# Yes: all other parameters are compile-time constants, so each value compiles again; they can be compiled as \
# normal inputs by making them tensors."""
# stack = "jax"
# mechanism = "static_argument"
# argument = "guidance_scale"
# before = "7.5"
# after = "6.0"
# line = 41
# lines_accepted = [25, 42, 50, 51]
# compiles = [5, 1]
# counted = "compiles of _generate (jax_log_compiles)"
# cure = "Let guidance_scale be traced."
# cure_lines = [
#   {line = 41, code = "@partial(jax.jit, static_argnums=(0, 4))"},
# ]
# cure_environment = {}
# losses = "close"
# ///
