"""A module called by position, then by keyword."""
# expect: keyword input "by position" -> "by keyword"

import torch

import coldstep

compiled = torch.compile(torch.nn.Linear(3, 3), backend="eager")
x = torch.ones(3)
for by_keyword in (False, False, True, False):
    with coldstep.step():
        coldstep.wait(compiled(input=x) if by_keyword else compiled(x))
