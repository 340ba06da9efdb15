"""XLA's profiler, which JAX and torch_xla share."""
