"""Text is generated with a cache of three tensors: the second token is compared with the first, not with the prompt."""
# expect: type cache None -> "list of 3"
# expect: shape cache[0] f32[4] -> f32[5]

import torch


@torch.compile(backend="eager", dynamic=False)
def decode(tokens, cache):
    if cache is None:
        return [tokens, tokens * 2, tokens * 3]
    return [torch.cat([each, tokens]) for each in cache]


cache = decode(torch.ones(4), None)
for _ in range(2):
    cache = decode(torch.ones(1), cache)
