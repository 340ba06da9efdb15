"""What parallel training costs at its first steps: JAX on several devices, PyTorch on several ranks"""
