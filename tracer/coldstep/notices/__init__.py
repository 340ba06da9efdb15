"""What the running program hears at once: a recompile, a compile that is coming, one after `ready()`."""
