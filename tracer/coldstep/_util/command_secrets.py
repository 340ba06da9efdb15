"""What of a command line may be recorded: whatever looks like a token, key, secret, password or URL with a user is not.

Standard library only: it runs in the traced process, as the trace begins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from coldstep._util.expressions import expression

HIDDEN = "hidden"

# Shell: "hf-token"
_SECRET = expression(
    r"(?:^|[-_.])(?:token|secret|password|passwd|passphrase|pwd|pass|credentials?|key|apikey|auth|authorization|bearer|"
    r"cookie|signature|sig)$|(?:secret|password|passwd|passphrase|credential|apikey|accesstoken|authtoken)",
    re.IGNORECASE,
)
# Shell: "API_KEY=abc"
_ASSIGNED = expression(r"([A-Za-z_][\w.-]{0,200})(['\"]?\]?\s{0,9}[=:]\s{0,9}['\"]?)((?!//)[^\s'\"&,;}]+)")
# Shell: "https://me:word@host/x"
_USER = expression(r"(\b[A-Za-z][A-Za-z0-9+.-]{0,20}://)[^\s/@]+@")
# Shell: "Authorization: Bearer abc"
_BEARER = expression(r"\b(bearer|basic)(\s+)\S+", re.IGNORECASE)
# Shell: "AKIAIOSFODNN7EXAMPLE"
_TOKEN = expression(
    r"(?<![A-Za-z0-9])(?:gh[opsur]_|github_pat_|glpat-|xox[a-z]-|sk-|pypi-|npm_|eyJ|AKIA|ASIA|AIza|ya29\.)"
    r"[A-Za-z0-9_.-]{12,}|"
    r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{12,}(?!\w|[.-]\w)|"
    r"(?<![A-Za-z0-9+/_.-])(?=[A-Za-z0-9+_-]{0,200}[0-9])(?=[A-Za-z0-9+_-]{0,200}[A-Za-z])[A-Za-z0-9+]{32,}={0,2}(?![\w./-])"
)
# Shell: "apiKey"
_CAMEL = expression(r"(?<=[a-z])(?=[A-Z])")


def hidden(words: Sequence[str]) -> list[str]:
    """The words of a command line, those that only their owner may know as "hidden"."""
    kept: list[str] = []
    for word in words:
        option = kept[-1] if kept and kept[-1].startswith("-") and "=" not in kept[-1] else ""
        value = option and not word.startswith("--") and _is_secret(option.lstrip("-"))
        kept.append(HIDDEN if value else _without_secrets(word))
    return kept


@lru_cache(maxsize=256)  # a build starts its compiler many times, with the same options
def _is_secret(name: str) -> bool:
    return _SECRET.search(_CAMEL.sub("_", name)) is not None


@lru_cache(maxsize=256)
def _without_secrets(text: str) -> str:
    text = _USER.sub(rf"\1{HIDDEN}@", text)
    text = _BEARER.sub(rf"\1\2{HIDDEN}", text)
    if "=" in text or ":" in text:  # without, most of a path would be looked at from each of its letters on
        text = _ASSIGNED.sub(lambda match: f"{match[1]}{match[2]}{HIDDEN}" if _is_secret(match[1]) else match[0], text)
    return _TOKEN.sub(HIDDEN, text)
