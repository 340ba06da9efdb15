"""Asks the right framework about a call that has not been made."""
