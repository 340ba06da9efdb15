"""Perfetto's native trace format: writing it, reading it back, and where things stand in it."""
