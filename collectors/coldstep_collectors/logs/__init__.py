"""Readers of what the frameworks log themselves: see `coldstep.logs`."""
