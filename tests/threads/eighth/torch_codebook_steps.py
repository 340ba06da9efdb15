"""Decodes the codebooks of an audio frame one after the other, with keys and values of the ones before."""

import torch
from torch import nn

CODEBOOKS, WIDTH = 6, 16


class FastDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(20, WIDTH) for _ in range(CODEBOOKS))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, 20)
        self.register_buffer("keys", torch.zeros(4, CODEBOOKS, WIDTH))
        self.register_buffer("values", torch.zeros(4, CODEBOOKS, WIDTH))

    def forward_kvcached(self, codes, codebook_idx):
        x = self.embeddings[codebook_idx](codes)
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        self.keys[:, codebook_idx] = key
        self.values[:, codebook_idx] = value
        scores = torch.einsum("bw,bcw->bc", query, self.keys[:, : codebook_idx + 1])
        attended = torch.einsum("bc,bcw->bw", scores.softmax(-1), self.values[:, : codebook_idx + 1])
        return self.output(x + attended)


torch.manual_seed(0)
decoder = FastDecoder()
decode = torch.compile(decoder.forward_kvcached, backend="aot_eager")
with torch.no_grad():
    for _ in range(3):
        codes = torch.randint(0, 20, (4,))
        for codebook_idx in range(CODEBOOKS):
            logits = decode(codes, codebook_idx)
            codes = logits.argmax(-1)
        print("value", repr(logits.sum().item()))
# /// thread
# address = "https://github.com/sgl-project/sglang-omni/pull/1859"
# asked = "Repeated recompiles of the compiled decoder hit the recompile limit; the first frame takes 26 s."
# answer = """\
# forward_kvcached is compiled for each codebook_idx, in real traffic: compile it with dynamic=True, and warm it up at \
# the start for every codebook_idx."""
# stack = "torch"
# mechanism = "python_scalar"
# argument = "codebook_idx"
# before = "0"
# after = "1"
# line = 35
# lines_accepted = [18, 19, 30]
# compiles = [6, 1]
# counted = "compiles of forward_kvcached (compilation metrics of Dynamo)"
# cure = "Give the index as a tensor, and look one table of embeddings up (the thread's warm-up moves them only)."
# cure_lines = [
#   {line = 19, code = """
#         table = torch.stack([embedding.weight for embedding in self.embeddings])
#         x = table[codebook_idx, codes]
#         past = torch.arange(CODEBOOKS) > codebook_idx"""},
#   {line = 21, code = "        self.keys.index_copy_(1, codebook_idx, key[:, None])"},
#   {line = 22, code = "        self.values.index_copy_(1, codebook_idx, value[:, None])"},
#   {line = 23, code = "        scores = torch.einsum(\"bw,bcw->bc\", query, self.keys).masked_fill(past, -torch.inf)"},
#   {line = 24, code = "        attended = torch.einsum(\"bc,bcw->bw\", scores.softmax(-1), self.values)"},
#   {line = 35, code = "            logits = decode(codes, torch.tensor([codebook_idx]))"},
# ]
# cure_environment = {}
# losses = "close"
# ///
