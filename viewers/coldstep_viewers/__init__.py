"""One module per place where people look at a trace; each is a function of the loaded trace."""
