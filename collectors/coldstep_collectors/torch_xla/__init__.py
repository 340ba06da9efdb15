"""All that reads torch_xla."""
