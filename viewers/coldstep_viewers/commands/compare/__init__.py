"""`diff`, `compare`, `cache`, `forecast`."""
