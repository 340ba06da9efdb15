"""A slice takes its begin as the program runs only where that alone depends on the argument."""

from __future__ import annotations

import pytest
from threads.judge import followed

from coldstep.analysis.remedies.blocks import block_around
from coldstep.analysis.rules.tensorflow_slices import with_dynamic_slice
from coldstep.model import Location, Remedy

HEAD = "@tf.function(jit_compile=True)\ndef f(x, start, n):\n"


def rewritten(body: str, argument: str = "start") -> str | None:
    text = HEAD + body
    block = block_around({("train.py", 1): text}, Location("train.py", 2, ""))
    made = with_dynamic_slice(block, argument) if block is not None else None
    if made is None:
        return None
    after = followed(text, Remedy("x", "edit", "", {}, made.code, "instead", made.location, "nothing", made.lines))
    return after.removeprefix(HEAD)


def test_the_one_slice_that_begins_there_is_written_anew() -> None:
    made = rewritten("    y = tf.slice(x, [start], [16])  # part\n    return y\n")
    assert made == (
        "    from tensorflow.compiler.tf2xla.python import xla\n    y = xla.dynamic_slice(x, [start], [16])  # part\n"
        "    return y\n"
    )
    made = rewritten("    if n:\n        return tf.slice(x, [0, start], (4, n))\n")
    assert made is not None
    assert "        return xla.dynamic_slice(x, [0, start], (4, n))\n" in made


@pytest.mark.parametrize(
    ("body", "argument"),
    [
        ("    return tf.slice(x, [start], [n])\n", "n"),
        ("    return tf.slice(x, [start], [start])\n", "start"),
        ("    return tf.slice(x, [start], [-1])\n", "start"),
        ("    return tf.slice(x[start:], [start], [4])\n", "start"),
        ("    return tf.slice(x, begin=[start], size=[4])\n", "start"),
        ("    y = tf.slice(x, [start], [4])\n    return y + tf.slice(x, [start], [4])\n", "start"),
        ("    xla = 1\n    return tf.slice(x, [start], [4])\n", "start"),
        ("    return np.slice(x, [start], [4])\n", "start"),
        ("    return x[start : start + 4]\n", "start"),
        ("    if tf.slice(x, [start], [4]):\n        pass\n", "start"),
        ("    return tf.slice(x, [start], [4])\n", "start; steal()"),
        ("    return tf.slice(x, [start + eval('1')], [4])\n", "start"),
        ("    return tf.slice(x, [start], [4]\n", "start"),
    ],
)
def test_what_is_not_clear_stays(body: str, argument: str) -> None:
    assert rewritten(body, argument) is None
