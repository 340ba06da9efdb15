"""Pages beside the report of one trace: forecasts, frameworks beside each other, programs."""
