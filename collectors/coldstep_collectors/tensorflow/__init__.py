"""All that reads TensorFlow."""
