"""Nine models trained by every stack, and what each made of its first steps. `python -m benchmarks.stack_wars`"""

STACKS = {
    "jax": "jax",
    "inductor": "torch",
    "eager": "torch",
    "torch_xla": "torch_xla",
    "openxla": "torch_xla",
    "tensorflow": "tensorflow",
    "tensorflow_xla": "tensorflow",
}
"""A stack, and the package that it needs."""
