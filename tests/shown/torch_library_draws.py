"""The standard library draws random numbers in Python."""

# shows: breaks _BY_REASON[`[^`]*Random\.\w+|random\.Random] in a library

import torch


class M:
    pass


@torch.compile(backend="eager")
def f(x):
    import statistics

    return x * statistics.NormalDist(0.0, 1.0).samples(1)[0]


for _ in range(3):
    print("loss", float(f(torch.ones(4)).sum()) * 0)
