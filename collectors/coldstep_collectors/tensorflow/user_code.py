"""Reads AutoGraph's errors: "in user code:", the lines that it came through, and at the end the error itself."""

from __future__ import annotations

from coldstep._util.expressions import expression
from coldstep.errors import first_line, text_of
from coldstep.events import Args
from coldstep.places import is_installed, location

_BEGINS = "in user code:"
_MOST_CHARS = 500
# TensorFlow 2.21: "    File "train.py", line 10, in descend  *"
_LINE = expression(r'^ {4}File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)  \*$')
# TensorFlow 2.21: "    ValueError: tf.function only supports singleton tf.Variables created on the first call."
_ERROR = expression(r"^ {4}(?P<error>[A-Za-z_]\w*: .+)$")


def failure(error: BaseException) -> Args:
    """An error in one line, `error`; of AutoGraph's what it stands for, and the user's innermost line, `cause_at`."""
    text = text_of(error).strip()
    if not text.startswith(_BEGINS):
        return {"error": first_line(error)}
    lines = text.splitlines()
    errors = [match["error"] for each in lines if (match := _ERROR.match(each)) is not None]
    converted = [match for each in lines if (match := _LINE.match(each)) is not None]
    places = [each for each in converted if not is_installed(each["file"])]
    about: Args = {"error": errors[-1][:_MOST_CHARS] if errors else first_line(error)}
    if places:
        about["cause_at"] = location(places[-1]["file"], int(places[-1]["line"]), places[-1]["function"])
    return about
