"""Which calls are steps, and when they settle."""
