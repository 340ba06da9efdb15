"""The stacks by their names: each program imports what it needs."""

stack = str
"""jax, tensorflow, tensorflow_xla, eager, a backend of torch.compile, triton."""
