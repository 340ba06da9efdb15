"""What is no report of one trace: forecasts, frameworks beside each other, programs."""
