"""An application for gunicorn (WSGI) and uvicorn (ASGI) that compiles as it is loaded, and anew in each worker."""

import os

import torch
from counting import torch_counted, torch_graphs

double = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
double(torch.ones(2))
torch_counted()
loaded, before = os.getpid(), torch_graphs()


def answer():
    """What one request is answered with."""
    value = float(double(torch.ones(5)).sum())
    torch_counted(before if os.getpid() != loaded else 0)
    return f"{value} {os.getpid()}".encode()


def wsgi(environment, start_response):
    """For gunicorn."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [answer()]


async def asgi(scope, receive, send):
    """For uvicorn."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer()})
