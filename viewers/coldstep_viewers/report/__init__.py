"""One trace, for people: in the terminal, on a page, in a notebook, as JSON."""
