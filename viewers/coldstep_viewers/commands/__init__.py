"""A file per command of `coldstep`."""
