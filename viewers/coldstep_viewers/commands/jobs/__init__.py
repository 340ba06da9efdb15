"""`merge`, `fleet load`, `fleet report`."""
