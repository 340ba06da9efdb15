"""Text is generated within a window: once the text is longer, the window is a slice, with the strides of the whole."""
# expect: shape tokens i64[1,3] -> i64[1,4]
# expect: layout tokens i64[1,4] -> "i64[1,4] stride(5,1)"

import torch


@torch.compile(backend="eager")
def logits(tokens):
    return tokens.cumsum(1) * 2


text = torch.ones(1, 3, dtype=torch.int64)
for _ in range(5):
    text = torch.cat([text, logits(text[:, -4:])[:, -1:]], 1)
