"""The table of remedies: what a row of it is, and how it is filled in. `coldstep.analysis.rules` has the rows."""
