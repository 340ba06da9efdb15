"""The only modules that name a framework's private interfaces: each behind a test for the feature."""
