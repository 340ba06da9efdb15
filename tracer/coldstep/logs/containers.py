"""Takes lines out of what holds them as a text: a line of JSON, Python's `repr`, `msg="…"`, HTML."""

from __future__ import annotations

import ast
import html
import json
import re
import string
from collections.abc import Iterator, Mapping
from typing import Any

_MOST_LAYERS = 4
_MOST_CHARS = 1 << 20
_TEXTS = ("log", "message", "msg", "MESSAGE", "textPayload", "text", "line", "event", "body", "content", "data")
_NESTED = ("jsonPayload", "record", "fields", "attributes", "event", "data", "body", "log")
_TIMES = ("time", "timestamp", "@timestamp", "ts", "asctime", "datetime", "t")
_WORKERS = {"rank": "[rank{}]: ", "pid": "(pid={}) ", "process": "(pid={}) ", "worker": "[worker{}] "}
"""What a line of JSON holds beside its text, as the launchers write it."""
# Docker: "{"log":"step 1\n","stream":"stderr","time":"2026-11-21T07:47:53.123456789Z"}"
_JSON = re.compile(r'\{\s*"[@\w.-]{1,40}"\s*:')
# Python: "b'step 1 of train\n'"
# Python: "'step 1 of train\n',"
_REPR = re.compile(r"[\s\[(,]*(?=['\"])")
# Python: "stderr: b'step 1 of train\n'"
_REPR_OF_BYTES = re.compile(r".{0,200}?\bb(?=['\"])")
_BEHIND_REPR = f",]){string.whitespace}"
# Logfmt: "level=info msg="step 1 of \"train\"""
_LOGFMT = re.compile(r'\b(?:msg|message|log)=(?P<text>"(?:[^"\\]|\\.)*")')
# Logfmt: "time="2026-11-21T07:47:53Z" level=info"
_LOGFMT_TIME = re.compile(r'\b(?:time|ts)="?(?P<time>[^"\s]{1,40})')
# VSCode: "Recompiling function f in [/repo/a.py:38](https://file+.vscode-resource.vscode-cdn.net/repo/a.py:38)"
_LINK = re.compile(r"\[(?P<text>[^\[\]]{1,1000})\]\(https?://[^\s()]{1,2000}\)")
# HTML: "tensor &#39;x&#39;"
_ENTITY = re.compile(r"&(?:#\d{1,5}|#x[0-9a-fA-F]{1,4}|lt|gt|amp|quot|apos|nbsp);")
# Buildkite: "[36m(Worker pid=7)[0m"
# Jenkins: "^[[36m(Worker pid=7)^[[m"
_COLOUR = re.compile(r"(?:\x1b|\^\[|#033|\\x1b|\\u001b|\\033)\[[\d;]{0,20}m|\[\d{1,3}(?:;\d{1,3}){0,5}m")


def taken_out(line: str) -> Iterator[str]:
    """The lines that a line holds; itself, where it holds none."""
    yield from _taken_out(line, _MOST_LAYERS) if len(line) <= _MOST_CHARS else (line,)


def _taken_out(line: str, layers: int) -> Iterator[str]:
    if line.startswith("\t"):  # a payload of PyTorch's structured trace, which is JSON, too
        yield line
        return
    line = _COLOUR.sub("", html.unescape(line) if _ENTITY.search(line) else line).replace("\xa0", " ")
    line = _LINK.sub(r"\g<text>", line) if "](http" in line else line
    held = (_of_json(line) or _of_logfmt(line) or _of_repr(line)) if layers else None
    if held is None:
        yield line
        return
    before, text = held
    for each in re.split(r"[\r\n]+", text.rstrip("\r\n")):
        yield from _taken_out(f"{before}{each}" if not each.startswith("\t") else each, layers - 1)


def _of_json(line: str) -> tuple[str, str] | None:
    match = _JSON.search(line)
    if match is None or line[: match.start()].endswith("] "):  # a record of PyTorch's structured trace
        return None
    try:
        row, _ = json.JSONDecoder().raw_decode(line, match.start())
    except (ValueError, RecursionError):
        return None
    text = _text(row) if isinstance(row, dict) else None
    return (f"{line[: match.start()]}{_beside(row)}", text) if text else None


def _text(row: Mapping[str, Any]) -> str | None:
    texts = (row.get(key) for key in _TEXTS)
    direct = next((text for text in texts if isinstance(text, str)), None)
    rows = (row.get(key) for key in _NESTED)
    return direct or next((text for each in rows if isinstance(each, dict) and (text := _text(each))), None)


def _beside(row: Mapping[str, Any]) -> str:
    time = next((text for key in _TIMES if isinstance(text := row.get(key), str)), "")
    workers = (form.format(row[key]) for key, form in _WORKERS.items() if isinstance(row.get(key), int))
    return f"{time} {''.join(workers)}".lstrip()


def _of_logfmt(line: str) -> tuple[str, str] | None:
    if (match := _LOGFMT.search(line)) is None:
        return None
    time = _LOGFMT_TIME.search(line, 0, match.start())
    try:
        return (f"{time['time']} " if time else ""), str(json.loads(match["text"]))
    except ValueError:
        return None


def _of_repr(line: str) -> tuple[str, str] | None:
    until = line.rstrip(_BEHIND_REPR)
    begins = (match.end() for form in (_REPR, _REPR_OF_BYTES) if (match := form.match(until)) is not None)
    begin = next((at for at in begins if until[at] == until[-1] and at < len(until) - 1), None)
    if begin is None or not {" ", "\\"}.intersection(until[begin:]):
        return None
    try:
        text = ast.literal_eval(until[begin:])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    before = line[:begin].rstrip("[(, ").removesuffix("b").rstrip("[(, ")
    return (f"{before} " if before else "", text) if isinstance(text, str) else None
