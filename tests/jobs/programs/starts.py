"""Starts a Python by subprocess, and ends as it ended."""

import subprocess
import sys

sys.exit(subprocess.call([sys.executable, "steps.py"]) + 3)
