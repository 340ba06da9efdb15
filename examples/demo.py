"""`make demo`: the same small GPT in JAX and under torch.compile, in one trace, demo.pftrace."""

from __future__ import annotations

import argparse
import os
import tempfile

import coldstep


def train() -> None:
    """Train both; imported in here, so that the trace shows what importing the frameworks costs, too."""
    import gpt_jax

    gpt_jax.train()
    import gpt_torch

    gpt_torch.train()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-trace", action="store_true", help="train the same models without coldstep recording")
    untraced = parser.parse_args().no_trace
    with tempfile.TemporaryDirectory(prefix="coldstep-demo-") as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache  # an empty one: a first run, every time
        if untraced:
            train()
            return
        with coldstep.trace("demo.pftrace") as run:
            train()
    print()
    print(run.report())
    print("\nSee it on a timeline:  .venv/bin/coldstep open demo.pftrace")


if __name__ == "__main__":
    main()
