"""Opens coldstep's door where no `coldstep.pth` does, then runs the program's own sitecustomize, as if this were none.

Any Python may run it, of any version and without coldstep: what fails here is passed over.
"""

import os
import sys


def _open():
    """As the file would, where this Python has coldstep, too."""
    try:
        from importlib.util import find_spec

        if find_spec("coldstep_shim") is not None:
            __import__("coldstep_shim.door")
    except Exception:
        pass  # the program runs as if nothing were


def _run_own(folder):
    """The sitecustomize that Python would have found without this one; its errors are its own."""
    try:
        from importlib.machinery import PathFinder
        from importlib.util import module_from_spec
    except ImportError:
        return
    sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != folder]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_folder = os.path.dirname(os.path.abspath(__file__))
if os.environ.get("COLDSTEP"):
    _open()
_run_own(_folder)
