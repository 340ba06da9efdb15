"""An operator of one's own that has no rule for what it returns."""

# shows: breaks _BY_REASON[no meta kernel|running with fake tensors|UnsupportedFakeTensorException|non-PT2-compliant op]
import torch

lib = torch.library.Library("mine", "DEF")
lib.define("double(Tensor x) -> Tensor")
lib.impl("double", lambda x: x * 2, "CPU")


@torch.compile(backend="aot_eager")
def f(x):
    return torch.ops.mine.double(x + 1).sum()


for _ in range(3):
    print("loss", float(f(torch.ones(2, 4))))
