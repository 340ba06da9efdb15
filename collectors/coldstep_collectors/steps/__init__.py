"""Where steps may be: calls in loops, and those that trainers announce."""
