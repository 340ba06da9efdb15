"""A window of attention whose width is a number."""

# shows: rules.dynamo REMEDIES[number of a mask]
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

q = torch.randn(1, 1, 128, 16)
att = torch.compile(flex_attention, backend="eager")
for w in (16, 32, 64):

    def mod(b, h, i, j, w=w):
        return i - j < w

    m = create_block_mask(mod, None, None, 128, 128, device="cpu")
    print("loss", float(att(q, q, q, block_mask=m).sum()))
