"""`coldstep run`."""
