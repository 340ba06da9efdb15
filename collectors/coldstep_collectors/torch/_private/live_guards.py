"""Asks what Dynamo has compiled whether it would take a call now, as far as that hangs on objects that still live."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import CodeType
from typing import Any

from coldstep_collectors.torch._private import names

_ROOT = "L"  # what the guards of all variables hang on


def failures(code: CodeType, values: Mapping[str, Any]) -> list[str] | None:
    """Of each variant of a function, newest first, the first guard that these of its variables, or its globals, do not
    pass now, in PyTorch's words; None where a variant may pass, or there is none."""
    find = names.ENTRIES.find()
    if find is None or names.GUARDS.form() is None:
        return None
    texts = [_failure(entry, values) for entry in find(code)]
    failed = [text for text in texts if text is not None]
    return failed[::-1] if failed and len(failed) == len(texts) else None


def _failure(entry: Any, values: Mapping[str, Any]) -> str | None:
    [root] = names.GUARD_ROOT.attributes(entry.guard_manager) or (None,)
    sources = ["G", *(f"L['{name}']" for name in values)]
    some = root.clone_manager(lambda manager: _is_of(manager.get_source(), sources)) if root is not None else None
    if some is None:
        return None
    verdict = some.check_verbose(dict(values))
    return next((str(text) for text in verdict.verbose_code_parts), None) if not verdict.result else None


def _is_of(source: str, sources: Collection[str]) -> bool:
    """Whether a guard's place is among these, or within one of them."""
    return source == _ROOT or any(source == each or f"{each}." in source or f"{each}[" in source for each in sources)
