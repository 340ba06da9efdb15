"""Several traces beside each other: two runs, the ranks of one, the frameworks."""
