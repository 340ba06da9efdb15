"""The warm-up runs under `no_grad`, the requests under `inference_mode`.

Rebuilt from HabanaAI/vllm-fork#640.
"""
# late: grad_mode -

import torch

import coldstep

model = torch.nn.Linear(4, 4)
compiled = torch.compile(model, backend="eager")
x = torch.ones(2, 4)


def serve(x):
    with torch.inference_mode():
        return compiled(x)


with torch.no_grad():
    compiled(x)
coldstep.ready()
with coldstep.step("request"):
    serve(x)
