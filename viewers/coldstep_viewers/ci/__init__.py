"""What a CI system reads, and what pytest does with it."""
