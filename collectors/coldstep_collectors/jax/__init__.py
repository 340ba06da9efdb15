"""All that reads JAX."""
