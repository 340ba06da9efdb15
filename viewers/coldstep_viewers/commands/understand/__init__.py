"""`report`, `open`, `log`, `sql`."""
