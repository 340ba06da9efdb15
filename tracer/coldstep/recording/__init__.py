"""From an event to bytes: buffers, tracks, device lines, and the end of a process."""
