"""The private names among them. Without one, what the program asks for by a public name is seen all the same."""

from __future__ import annotations

from coldstep_collectors.names import Form, Hook

STARTS_CUDA = Hook(None, Form("torch.cuda:_lazy_init", versions="2.5-"))
"""PyTorch calls it before anything that needs the device."""
BUILDS = Hook(None, Form("torch.utils.cpp_extension:_jit_compile", versions="2.5-"))
"""Builds an extension, or loads it."""
TRIES = Hook(None, Form("triton.runtime.autotuner:Autotuner._bench", versions="3.0-"))
"""Times one choice of Triton's autotuner."""
