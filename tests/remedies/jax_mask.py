import jax
import jax.numpy as jnp


def shrink(w):
    small = w[jnp.abs(w) < 0.5]
    w = w.at[jnp.abs(w) < 0.5].add(-0.5 * small)
    return 0.9 * w


fast = jax.jit(shrink)
w = jnp.array([1.0, 0.2, -0.4, 3.0])
for _ in range(3):
    try:
        w = fast(w)
    except jax.errors.NonConcreteBooleanIndexError:
        w = shrink(w)
    print("loss", round(float(w.sum()), 5))
