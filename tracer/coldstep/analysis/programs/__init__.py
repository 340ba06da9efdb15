"""Two programs of a compiler, beside each other."""
