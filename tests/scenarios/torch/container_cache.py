"""A key-value cache in a list grows at every token: never settles."""
# expect: container cache [] -> "list of 1"
# expect: container cache "list of 1" -> "list of 2"
# expect: container cache "list of 2" -> "list of 3"
# expect: container cache "list of 3" -> "list of 4"
# expect: container cache "list of 4" -> "list of 5"
# finding: not_settled
# finding: repeat_offender

import torch

import coldstep


@torch.compile(backend="eager")
def decode(x, cache):
    cache.append(x * 2)
    return sum(x.sum() for x in cache)


cache = []
for _ in range(6):
    with coldstep.step():
        coldstep.wait(decode(torch.ones(3), cache))
