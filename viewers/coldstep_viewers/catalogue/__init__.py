"""The catalogue of causes: each with a program that provokes it, the report of that program, and what to change."""
