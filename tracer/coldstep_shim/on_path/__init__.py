"""The folder that stands in front of PYTHONPATH where an interpreter has no `coldstep.pth`: one module lies in it."""
