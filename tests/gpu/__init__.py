"""Plain scripts for a machine with an NVIDIA GPU, and what their traces must show there: `make gpu` runs them without
pytest, and test_gpu.py with it."""
