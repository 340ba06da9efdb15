"""Jobs of several processes: tests, and `make jobs`, which runs all kinds of them."""
