"""Pure functions from the rows of a file to what they mean: settling, cost, recompiles, findings."""
