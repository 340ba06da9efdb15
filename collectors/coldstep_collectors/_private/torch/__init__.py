"""PyTorch's private hooks and names, a module per job; nothing here imports torch.

A module of torch's is looked up where it is already imported, or handed in.
"""
