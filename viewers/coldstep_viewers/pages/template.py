"""What every HTML page of ours is made with: the template engine, the style sheet, and texts cut to a length."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from coldstep._util.figures import duration, percent, size
from coldstep.vocabulary import Vocabulary
from coldstep_viewers.safe_text import plain

_MAX_CHARS = 2_000


def rendered(template: str, **values: object) -> str:
    """The page that a template makes: all texts of a trace are escaped, made plain and cut."""
    loader = PackageLoader("coldstep_viewers", "templates")
    templates = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=shown
    )
    templates.filters |= {"duration": duration, "percent": percent, "size": size}
    return templates.get_template(template).render(**values)


def shown(value: object) -> object:
    """A value as a page has it: a text is cut."""
    return cut(value) if type(value) is str else value


def style(vocabulary: Vocabulary) -> Markup:
    """The style sheet, with the colours of phases."""
    phases = vocabulary.phases.values()
    tones = (f"  --{tone(vocabulary, row.name)}: light-dark({row.light}, {row.dark});" for row in phases)
    return Markup("\n".join([":root {", *tones, "}", file("style.css")]))


def tone(vocabulary: Vocabulary, phase: str) -> str:
    """The name, in the style sheet, of a phase's colour."""
    return re.sub(r"[. ]", "-", phase) if phase in vocabulary.phases else "other"


def scripts(name: str) -> dict[str, object]:
    """For a page: the libraries that charts are drawn with, each with its licence in front; a script of ours; and by
    what its policy knows these and lets no other run."""
    vendored = [
        Markup(f"/*\n{file(f'vendor/LICENSE-{library}')}*/\n{file(f'vendor/{library}{ending}')}")
        for library, ending in (("d3", ".min.js"), ("plot", ".umd.min.js"))
    ]
    own = Markup(file(name))
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (*vendored, own))
    policy = Markup(" ".join(f"'sha256-{known}'" for known in hashes))
    return {"vendored": vendored, "script": own, "policy": policy}


def file(name: str) -> str:
    """A file of the page's folder."""
    return files("coldstep_viewers").joinpath("templates", name).read_text("utf-8")


def cut(text: str) -> str:
    """A text as a page shows it."""
    return plain(text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…")
