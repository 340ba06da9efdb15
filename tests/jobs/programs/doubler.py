"""A model that compiles, and once anew for another size: in a process by itself, or as Ray's actor."""

from counting import jax_counted


class Model:
    """A value, by a program for its shape."""

    def __init__(self):
        self.jax, self.count = jax_counted()
        self.double = self.jax.jit(lambda x: x * 2)

    def step(self, n):
        """The sum of twice `n` ones."""
        value = float(self.double(self.jax.numpy.ones(n)).sum())
        self.count()
        return value
