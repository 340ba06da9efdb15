"""`check`, and the baseline that it reads."""
