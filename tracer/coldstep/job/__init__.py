"""A job: what one command starts, all its processes; who belongs to it, what each writes, and how they are read."""
