"""What the next process finds in the disk caches, and why not."""
