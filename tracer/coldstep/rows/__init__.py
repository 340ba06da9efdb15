"""What the rows of a trace are made of: intervals, spans, processes, variants, and the ledger that shares time out."""
