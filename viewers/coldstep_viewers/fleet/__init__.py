"""Whole fleets of traces: read in parallel into tables that lie in a folder or an object store, and their results."""
