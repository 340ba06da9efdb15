"""A log in which PyTorch tells of a graph without its CUDA graph: an answer, at the user's line."""

from __future__ import annotations

from pathlib import Path

import pytest

import coldstep
from coldstep.errors import TraceError
from coldstep.logs import convert
from coldstep.model import Finding

STAMP = "W1127 22:24:35.262000 625 torch/_inductor/cudagraph_utils.py:207] [__cudagraphs] "
MUTATED = f"""{STAMP}skipping cudagraphs due to mutated inputs (2 instances). Found from :
{STAMP}   File "/repo/train.py", line 5, in decode
{STAMP}    y = update(cache, x)
{STAMP}  File "/opt/conda/lib/python3.12/site-packages/hf/cache.py", line 90, in update
{STAMP}    cache[0] += x
{STAMP}
step 1: loss 0.3
"""


def uncompiled(folder: Path, text: str) -> list[Finding]:
    (folder / "job.log").write_text(text)
    convert([str(folder / "job.log")], str(folder / "job.pftrace"), lambda *_: None)
    return [row for row in coldstep.load(folder / "job.pftrace").findings if row.kind == "uncompiled"]


def test_the_reason_and_the_users_line_are_an_answer(tmp_path: Path) -> None:
    [row] = uncompiled(tmp_path, MUTATED * 3)
    assert row.text == "PyTorch replays no CUDA graph in decode: mutated inputs"
    assert row.location is not None
    assert (row.location.file, row.location.line) == ("/repo/train.py", 5)
    assert "mark_static_address" in row.advice


def test_a_reason_of_older_releases_and_one_without_a_place(tmp_path: Path) -> None:
    text = """skipping cudagraphs due to skipping cudagraphs due to cpu device (arg1_1). Found from :
   File "/repo/model.py", line 44, in forward
    x = x + self.bias
skipping cudagraphs due to multiple devices: cuda:0, cuda:1
"""
    assert {row.text: row.location and row.location.line for row in uncompiled(tmp_path, text)} == {
        "PyTorch replays no CUDA graph in forward: cpu device (arg1_1)": 44,
        "PyTorch replays no CUDA graph: multiple devices: cuda:0, cuda:1": None,
    }


FRAME = '  File "/repo/train.py", line 5, in decode\n    y = x + 1'
OPTION = "config.triton.cudagraph_skip_dynamic_graphs=True"


@pytest.mark.parametrize(
    ("words", "text", "advice"),
    [
        (f"graph with symbolic shapes inputs and {OPTION}. Found from {FRAME}",
         f" in decode: graph with symbolic shapes inputs and {OPTION}", "The option "),
        (f"disabling cudagraphs due to incompatible op aten.f.default Found from {FRAME}",
         " in decode: incompatible op aten.f.default", "Take what the reason names out"),
        (f"index_put_ fallback is not compatible with CUDA graphs Found from : \n {FRAME}",
         " in decode: index_put_ fallback is not compatible with CUDA graphs", "Take what the reason names out"),
        ("['mutated inputs', 'complex memory overlap']", ": mutated inputs, complex memory overlap",
         "A CUDA graph writes only into"),
        ("cpp-wrapper does not support graph partition yet", ": cpp-wrapper does not support graph partition yet", ""),
        ("x" * 10_000, f": {'x' * 300}…", "Take what the reason names out"),
    ],
)  # fmt: skip
def test_each_reason_that_pytorch_gives_is_one_short_sentence(
    tmp_path: Path, words: str, text: str, advice: str
) -> None:
    [row] = uncompiled(tmp_path, f"skipping cudagraphs due to {words}\nstep 1\n")
    assert row.text == f"PyTorch replays no CUDA graph{text}"
    assert row.advice.startswith(advice)
    assert (row.location is None) == (FRAME not in words)
    assert bool(row.advice) == bool(advice)


@pytest.mark.parametrize(
    "line",
    [
        '    log_cudagraph_skip_and_bump_counter("skipping cudagraphs due to bisector")',
        '+        f"skipping cudagraphs due to {reason}"',
        "skipping CUDA graphs due to my own reasons",
    ],
)
def test_code_that_is_quoted_is_no_message(tmp_path: Path, line: str) -> None:
    with pytest.raises(TraceError):
        uncompiled(tmp_path, f"{line}\nepoch 1\n")
