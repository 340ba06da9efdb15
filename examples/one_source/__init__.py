"""What one source for several stacks costs: a Keras model on three backends, and kernels of one's own"""
