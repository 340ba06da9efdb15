"""The programs that `coldstep doctor` runs, one per stack, each in a folder of its own: they stand for a user's."""
