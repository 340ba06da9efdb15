"""What can be known before a call: the compiles that it will bring, the memory that a step will hold."""
