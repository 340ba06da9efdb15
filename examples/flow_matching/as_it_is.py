"""`python -m examples.flow_matching.as_it_is STACK`: the program as it is, a step for each call of its forecast."""

from __future__ import annotations

import sys
from itertools import islice

from examples.flow_matching.molecules import CALLS, RATE, SIZES, batches
from examples.flow_matching.stacks import stack

import coldstep


def main(name: str) -> None:
    trainer = stack(name)(dynamic=False)
    for batch in islice(batches(SIZES), CALLS):
        with coldstep.step():
            coldstep.wait(trainer.update(batch, RATE))


if __name__ == "__main__":
    main(*sys.argv[1:])
