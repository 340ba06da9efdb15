"""All that reads PyTorch: Dynamo, AOTAutograd, Inductor, its profiler."""
