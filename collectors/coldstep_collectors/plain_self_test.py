"""Needs no framework: two steps."""

import coldstep

for _ in range(2):
    with coldstep.step():
        pass
