import threading

import torch


@torch.compile(backend="aot_eager")
def step(x):
    return (x * 2).sum()


def serve():
    torch.set_num_threads(1)
    for i in range(3):
        print("loss", step(torch.ones(4) * i).item())


torch.set_num_threads(2)
step(torch.zeros(4))
thread = threading.Thread(target=serve)
thread.start()
thread.join()
