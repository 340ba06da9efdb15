"""The only files that name this framework's private interfaces."""
