"""`strip`, `export`."""
