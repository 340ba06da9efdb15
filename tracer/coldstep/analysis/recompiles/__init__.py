"""Why something compiled again: a row for each recompile, with its cause and its argument."""
