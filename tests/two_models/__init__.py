"""An FFN and a GPT-2 in JAX and in PyTorch, whose compiles tests know line by line."""
