"""Forks when it has compiled, as prefork servers do; the child calls it as before, then compiles anew."""

import os

import torch
from counting import torch_counted, torch_graphs

step = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
print(float(step(torch.ones(3)).sum()), flush=True)
if pid := os.fork():
    _, status = os.waitpid(pid, 0)
    print("child ended with", os.waitstatus_to_exitcode(status))
    torch_counted()
else:
    before = torch_graphs()
    for n in (3, 4, 4, 4, 4):
        print(float(step(torch.ones(n)).sum()), flush=True)
    torch_counted(before)
