"""SHA-256, which frameworks have imported by when it is asked for: a trace without one need not wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import _Hash


def sha256(data: bytes = b"") -> _Hash:
    """As `hashlib.sha256`."""
    import hashlib

    return hashlib.sha256(data)


def short(text: str | bytes) -> str:
    """Its first 16 hex digits, of a text or of bytes."""
    return sha256(text.encode("utf-8", "replace") if isinstance(text, str) else text).hexdigest()[:16]
