"""Where a compiler's price turns: eight sweeps in JAX, PyTorch and TensorFlow, each of one thing that grows"""
