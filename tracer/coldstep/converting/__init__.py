"""From one trace to another: merged, stripped, made anonymous, with its findings written in."""
