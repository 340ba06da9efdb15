"""Answers with a compiled forward that has autocast in it, then starts a second worker that does the same."""

# /// thread
# address = "https://github.com/pytorch/pytorch/issues/191106"
# asked = """\
# A model with an autocast region in its compiled forward gets no AOTAutograd caching: each start traces it again."""
# answer = """\
# A maintainer: the graph then holds _enter_autocast, which the cache does not list as safe, so it bypasses the \
# graph at each start (newer versions list it)."""
# stack = "torch"
# mechanism = "cache_miss"
# argument = "torch.autocast"
# before = ""
# after = ""
# line = 43
# lines_accepted = [41, 43, 50, 55]
# compiles = [2, 1]
# counted = "graphs that AOTAutograd traced anew in the two processes (counters['aot_autograd']: bypasses and misses)"
# cure = "Enter autocast around the call of the compiled function, not in it."
# cure_lines = [
#     {line = 43, code = "    return (x @ first) @ second"},
#     {line = 44, code = ""},
#     {line = 49, code = "        with torch.no_grad(), torch.autocast(\"cpu\", dtype=torch.bfloat16):"},
# ]
# cure_environment = {}
# losses = "equal"
# ///

import os
import subprocess
import sys
import tempfile

import torch

os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp())
torch.manual_seed(0)
first, second = torch.randn(8, 8).bfloat16(), torch.randn(8, 8).bfloat16()


@torch.compile
def forward(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ first) @ second


def work():
    for _ in range(3):
        with torch.no_grad():
            print("value", repr(forward(torch.randn(8, 8).bfloat16()).float().sum().item()), flush=True)


work()
if "second" not in sys.argv:
    subprocess.run([sys.executable, __file__, "second"], check=True)
