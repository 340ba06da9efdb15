"""The error that a person sees in one line."""


class TraceError(ValueError):
    """A file that is no readable trace, or a trace that cannot be made; the message says what to do."""
