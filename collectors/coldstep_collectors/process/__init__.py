"""The process itself: memory, imports, call stacks, and the processes that it starts."""
