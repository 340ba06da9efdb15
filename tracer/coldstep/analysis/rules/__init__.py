"""What only one framework's words mean: a module for each stack."""
