"""What compiled after `ready()`, and the calls that would have compiled it before."""
