"""Opens coldstep's door where no `coldstep.pth` does, then runs the program's own sitecustomize, as if this were none.

Any Python may run it, of any version and without coldstep: what fails here is passed over.
"""

import os
import sys


def _open(folder):
    """Import the door from its own place: what the path has by that name may be somebody else's."""
    try:
        from importlib.machinery import PathFinder

        root = os.path.dirname(os.path.dirname(folder))
        for name, place in (("coldstep_shim", [root]), ("coldstep_shim.door", [os.path.dirname(folder)])):
            if name not in sys.modules:
                spec = PathFinder.find_spec(name, place)
                module = type(sys)(name)
                module.__spec__, module.__file__, module.__loader__ = spec, spec.origin, spec.loader
                module.__path__ = spec.submodule_search_locations
                sys.modules[name] = module
                spec.loader.exec_module(module)
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
    _open(_folder)
_run_own(_folder)
