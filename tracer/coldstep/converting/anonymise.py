"""What of a trace may be published: names, types, times and the frameworks' own words stay; paths, values, texts of the
user's, host and program are hashed, with a key that nobody keeps, or left out.

Equal things have equal hashes within one trace, and a value's hash is a value of the same type: values compared in a
trace compare alike in the published one. Whatever is not known to be harmless is hashed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from hashlib import blake2b

from coldstep.context import parsed
from coldstep.events import Args
from coldstep.vocabulary import PACKAGES

_GONE = {"command", "code", "block", "ir", "sources"}
_KEPT = {
    # our own words, ids, and what stands for itself
    "schema", "started", "ended", "part", "origin", "outcome", "state", "layer", "kind", "measures", "place", "phase",
    "severity", "version", "source", "platform", "collectors", "compile",
    "blind", "unknown", "candidate", "calls", "fed", "parent", "caused_by", "of", "break", "framework_id", "dynamic",
    "stack", "cuda_graph", "untraced", "how", "tool", "operation", "winner",
    # names
    "name", "function", "argument", "fed_back", "effects",
}  # fmt: skip
_COMPONENTS = {
    "computation", "jax_lib version", "backend version", "accelerator_config", "compression", "torch_version",
    "cpp_runtime_thread_count", "default_dtype", "grad_enabled", "provenance_tracking_level",
    "jax_compilation_cache_include_metadata_in_key",
}  # fmt: skip
"""Those of a cache's key of which the words are nobody's own."""
_PACKAGES = {"module", "under", "library"}
_TEXTS = {"text", "reason", "hints", "missing", "given_up", "evidence", "advice"}
_PUBLIC = {
    "coldstep", "coldstep_collectors", "coldstep_viewers", *PACKAGES, "torchgen",
    "torchvision", "functorch", "triton", "numpy", "scipy", "sympy", "mpmath", "networkx", "optax", "flax", "haiku",
    "equinox", "transformers", "accelerate", "lightning", "datasets", "tokenizers", "safetensors", "huggingface_hub",
    "pandas", "pyarrow", "sklearn", "matplotlib", "PIL", "tqdm", "yaml", "requests", "fsspec", "filelock", "psutil",
    "typing_extensions", "opt_einsum", "ml_dtypes", "einops", "tensorboard", "orbax", "chex",
    *sys.stdlib_module_names,
}  # fmt: skip
# coldstep: "f32[8,128] @cpu:1 committed"
_ARRAY = re.compile(r"[a-z][0-9a-z_]*(?:<\w+>)?\[[^\]]*\](?: \S+)*")
# coldstep: "{'a', 'b'}"
# coldstep: "list of 3"
# coldstep: "12 operations"
_STRUCTURE = re.compile(r"\{'[^']*'(?:, '[^']*')*\}|\w+ of \d+|\d+ operations|[A-Za-z_][\w.]*(?:\(\w*(?:, \w+)*\))?")
# coldstep: "mode == 'fast'"
# PyTorch 2.13: "L['n'] == 4"
_LITERAL = re.compile(
    r"""'(?:[^'\\]|\\.)*(?:'|\\?\Z)|"(?:[^"\\]|\\.)*(?:"|\\?\Z)|(?<![\w.#])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])"""
)
_HARMLESS = ("0", "1")
# PyTorch 2.13: "L['self'].scale == 0.5"
_COMPARED = re.compile(r"(.*?(?:[=!<>]=|[<>]) )(.*)", re.DOTALL)
# PyTorch 2.13: "L['x'].size()[0] == 4"
# PyTorch 2.13: "len(L['items']) == 2"
_SIZES = re.compile(r"\.size\(\)|\.stride\(\)|\.storage_offset\(\)|\.ndim|\.dim\(\)|\blen\(")
# PyTorch 2.13: "L['n'] == 4  # return x * n  # train.py:9 in step"
_COMMENT = re.compile(r"(?<!\s)\s{2,}# .*|\nUser stack trace:.*", re.DOTALL)
# Python: "ValueError: no batch of that size"
_ERROR = re.compile(r"(\b\w*(?:Error|Exception|Warning): )(.+)", re.DOTALL)
# Python: "/repo/train.py"
_PATH = re.compile(
    r"(?<![\w.\-+@~])[\w.\-+@~]*(?:/[\w.\-+@<>]+)+|(?<![\w\-])[\w\-]+\.(?:py|so|cpp|json|ya?ml|txt|pt|ckpt|csv)\b"
)
# Python: "/repo/venv/lib/python3.12/site-packages/jax/_src/api.py"
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/|.*/lib/python3[.\d]*/")
# PyTorch 2.13: "Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 7.10 GiB is free"
_AMOUNT = re.compile(
    r"(?i)allocat\w{0,10}(?: request for)?:? \d[\d.]* ?(?:bytes|[KMGT]?i?B)\b|of which [\d.]+ \w+ is free"
)
# Python: "ThreadPoolExecutor-0_3"
_THREADS = re.compile(r"(?:MainThread|Thread-\d+|ThreadPoolExecutor-\d+_\d+|Dummy-\d+|coldstep-\w+|pt_autograd_\d+)?")
# Shell: "x86_64-linux-gnu-g++-12"
_PROGRAMS = re.compile(r"(?:.*-)?(?:g\+\+|gcc|c\+\+|cc|clang(?:\+\+)?|nvcc)(?:-[\d.]+)?|ptxas|python[\d.]*|pool worker|"
                       r"worker pool|sh|ld|as|cc1plus|collect2|openssl|process")  # fmt: skip


def new_salt() -> bytes:
    """What traces must share that are to be compared when they are stripped."""
    return os.urandom(32)


class Private:
    """Hashes with one key, `salt`, which it forgets. `packages` are public beside those that are known to be; labels,
    where they are asked for."""

    def __init__(self, packages: Iterable[str] = (), salt: bytes | None = None, keep_labels: bool = False) -> None:
        self._public = _PUBLIC | set(packages)
        self._key = salt or new_salt()
        self._gone = _GONE if keep_labels else _GONE | {"labels"}
        self._hidden: list[str] = []
        places, values = dict.fromkeys(("file", "root"), self._path), dict.fromkeys(("type", "value"), self._value)
        words = dict.fromkeys(_PACKAGES, self._package) | dict.fromkeys(_TEXTS, self._words)
        self._rules = dict.fromkeys(_KEPT, self._known) | places | values | words | {"guard_failures": self._guard}

    def hide(self, words: Iterable[str]) -> None:
        """Hash these words wherever they stand in a text."""
        self._hidden += [word for word in words if len(word) > 1]

    def args(self, args: Args) -> Args:
        """The arguments of an event, as they may be known."""
        return {key: self._arg(key, value) for key, value in args.items() if key not in self._gone}

    def name(self, kind: str, name: str) -> str:
        """A slice's name on a track of that kind."""
        if kind == "imports":
            return self._package(name)
        if kind == "phases":
            return self.category(name)
        if kind == "workers" and not _PROGRAMS.fullmatch(name):
            return self.hash(name)
        # a call stack that was read while it changed may have any text of the process for a name
        return self._known(name)

    def category(self, category: str) -> str:
        """A phase."""
        package = category.removeprefix("import.")
        return category if package == category else f"import.{self._package(package)}"

    def thread(self, name: str) -> str:
        """A thread's name."""
        return name if _THREADS.fullmatch(name) else self.hash(name)

    def hash(self, text: str) -> str:
        """A short word for a text."""
        return f"x{self._digest(text):08x}"

    def _digest(self, text: str, size: int = 4) -> int:
        return int.from_bytes(blake2b(text.encode("utf-8", "replace"), key=self._key, digest_size=size).digest(), "big")

    def _again(self, digest: str) -> str:
        """16 hex digits for those of a plain hash, which of a short text could be guessed back."""
        return f"{self._digest(digest, 8):016x}"

    def _of_cache(self, row: Args) -> Args:
        """What a cache said: of its key, the names of the components, and the words of some."""
        kept = {name: value for name, value in row.items() if name not in ("key", "components")}
        if "why_text" in row:
            kept["why_text"] = self._words(str(row["why_text"]))
        if "key" in row:
            kept["key"] = self._again(str(row["key"]))
        if "components" in row:
            kept["components"] = list(map(self._component, row["components"]))
        return kept

    def _component(self, row: Args) -> Args:
        name = str(row["name"])
        words = {"text": row["text"]} if "text" in row and name in _COMPONENTS else {}
        return {"name": self._known(name), "hash": self._again(str(row["hash"]))} | words

    def _arg(self, key: str, value: object) -> object:
        if isinstance(value, dict):
            if key == "context":
                return {name: self._of_context(name, str(text)) for name, text in value.items()}
            if key in ("dynamic", "labels"):
                return value
            if key == "cells":
                return {self._path(file): self._text_of("name", str(cell)) for file, cell in value.items()}
            if key == "versions":
                return {name: self._text_of("version", str(text)) for name, text in value.items()}
            if key == "vocabulary":  # of a collector: nothing in it is the program's
                return self._published(value)
            return self.args(value)
        if isinstance(value, list) and key == "caches":
            return [self._of_cache(row) for row in value]
        if isinstance(value, list):
            return [self._arg(key, item) for item in value]
        if not isinstance(value, str):
            return value
        return self._text_of(key, value)

    def _published(self, value: object) -> object:
        """Texts in dicts and lists without paths and what is hidden."""
        if isinstance(value, dict):
            return {key: self._published(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._published(item) for item in value]
        return self._known(value) if isinstance(value, str) else value

    def _text_of(self, key: str, text: str) -> str:
        if (rule := self._rules.get(key)) is not None:
            return rule(text)
        if key == "program" and text.startswith("1:"):
            return f"1:{self._again(text)}"
        if key == "error":
            kind, _, rest = text.partition(": ")
            amounts = ", ".join(_AMOUNT.findall(rest))
            return f"{kind}: {amounts or self.hash(rest)}" if rest else kind
        if key == "key":
            stack, _, rest = text.partition(":")
            file, _, function = rest.rpartition(":")
            return f"{stack}:{self._path(file)}:{function}"
        return self.hash(text)

    def _of_context(self, name: str, text: str) -> str:
        known = parsed(name)
        published = known is not None and known[0].published
        return self._known(text) if published else self._value(text)

    def _value(self, text: str) -> str:
        """A Python value, or the type of an array."""
        if _ARRAY.fullmatch(text) or _STRUCTURE.fullmatch(text):
            return text
        return _LITERAL.sub(lambda match: self._literal(match[0]), text)

    def _literal(self, text: str) -> str:
        if text in _HARMLESS:
            return text
        if text[0] in "'\"":
            return f"{text[0]}{self.hash(text[1:-1])}{text[0]}"
        number = 2 + self._digest(text) % 999_998
        return str(number) if text.isdigit() else f"{number}.5"

    def _guard(self, text: str) -> str:
        """A guard's expression, without source line and call stack behind it; what it is compared with is a value."""
        text = _COMMENT.sub("", text).rstrip()
        compared = _COMPARED.fullmatch(text)
        if compared is not None and not _SIZES.search(compared[1]):
            text = compared[1] + self._value(compared[2])
        return self._known(text)

    def _words(self, text: str) -> str:
        """A sentence: what is quoted in it is somebody's, and so is what an error said."""
        text = _ERROR.sub(lambda match: f"{match[1]}{self.hash(match[2])}", _COMMENT.sub("", text))
        text = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", lambda match: self._literal(match[0]), text)
        return self._known(text)

    def _known(self, text: str) -> str:
        """A text of which only paths and what is hidden are somebody's."""
        return self._without_hidden(self._paths(text))

    def _paths(self, text: str) -> str:
        def hashed(match: re.Match[str]) -> str:
            path, before = match[0], text[max(0, match.start() - 2) : match.start()]
            looks = path.startswith(("/", "~", "./", "../")) or "." in path.rpartition("/")[2]
            return self._path(path) if looks and not before.endswith(":/") else path

        return _PATH.sub(hashed, text)

    def _path(self, path: str) -> str:
        """A path, part by part, so that what lies below a folder does so still; below an installed public package, as
        it is from there on."""
        if path.startswith("<"):
            return path
        installed = _INSTALLED.match(path)
        if installed is not None and _top(path[installed.end() :]) in self._public:
            return f"/{'lib' if 'packages' not in installed[0] else 'site-packages'}/{path[installed.end() :]}"
        return "/".join(self._part(part) for part in path.split("/"))

    def _part(self, part: str) -> str:
        stem, dot, suffix = part.rpartition(".")
        if dot and stem and suffix.isalnum() and len(suffix) <= 4:
            return f"{self.hash(stem)}.{suffix}"
        return part if part in ("", ".", "..") else self.hash(part)

    def _package(self, module: str) -> str:
        known = module.startswith("<frozen ") or _top(module.replace(".", "/")) in self._public
        return module if known else self.hash(module)

    def _without_hidden(self, text: str) -> str:
        for word in self._hidden:
            if word in text:
                text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", self.hash(word), text)
        return text


def _top(path: str) -> str:
    return path.partition("/")[0].removesuffix(".py")
