"""Runs a module by the Python of `.venv-xla`, which alone has Triton."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PYTHON = Path(__file__).parents[2] / ".venv-xla/bin/python"

if __name__ == "__main__":
    sys.exit(subprocess.run([PYTHON, *sys.argv[1:]]).returncode)
