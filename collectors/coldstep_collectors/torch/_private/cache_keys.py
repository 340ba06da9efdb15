"""The components of PyTorch's cache keys, the entries stored under them, and which C++ kernels were built already.

Inductor hashes each component of its key anyway and logs it; AOTAutograd does so only to its debug log, so on a miss
they are hashed here, once. Configurations stand component by component, and only where they are not the default.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from coldstep._util.expressions import expression
from coldstep.errors import first_line, our_errors
from coldstep.events import Args
from coldstep_collectors.names import Hook
from coldstep_collectors.patch import Patch, undo_all
from coldstep_collectors.sha import short
from coldstep_collectors.torch._private import names

INDUCTOR_MODULE = "torch._inductor.codecache"
AUTOGRAD_MODULE = "torch._functorch._aot_autograd.autograd_cache"
# PyTorch 2.13: "[c7ra4y4uxbxwaytqoqgdipmpsnbsb5eeseq2ptlvgrglzsx2dhlm] fx_kwargs[is_backward]: False"
_LINE = expression(r"\[(\w+)\] ([^:\[]+(?:\[[^\]]*\])?): (.*)")
# PyTorch 2.13: "<function f at 0x7f31c40b8ae0>"
_ADDRESS = expression(r" at 0x[0-9a-f]+")
_TEXT_LIMIT = 1024
_CONFIGS = {"inductor_config": "torch._inductor.config", "autograd_config": "torch._functorch.config"}
_FOLDED = "inductor_config_comms"
_IS_BACKWARD = "fx_kwargs[is_backward]"
_MOST_LINES = 20_000  # that are known again
_ERRORS = {13: "read_only", 1: "read_only", 30: "read_only", 28: "full", 122: "full"}


class Components:
    """Components as a trace holds them: each value in words only where this process writes it for the first time."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()
        self._known: dict[str, tuple[str, str, str] | None] = {}
        self._defaults: dict[str, dict[str, str]] = {}

    def of_lines(self, lines: Iterable[str]) -> list[Args]:
        """Those of PyTorch's own lines. Without torch, which knows the usual values, as when a log is read,
        a configuration is one component; where it comes for the first time, with all of its options."""
        components: list[Args] = []
        folded = {_FOLDED, *(name for name, module in _CONFIGS.items() if module not in sys.modules)}
        whole: dict[str, dict[str, tuple[str, str]]] = {}
        for name, digest, words in filter(None, map(self._line, lines)):
            stem, _, option = name.partition("[")
            if stem in folded:
                whole.setdefault(stem, {})[option.removesuffix("]")] = digest, words
            else:
                components.append(self._component(name, digest, words))
        return components + [self._whole(stem, whole[stem]) for stem in sorted(whole)]

    def _whole(self, name: str, options: dict[str, tuple[str, str]]) -> Args:
        """A configuration as one component."""
        digests = "".join(f"{option}{digest}" for option, (digest, _) in options.items())
        row: Args = {"name": name, "hash": short(digests)}
        if name in _CONFIGS and (name, row["hash"]) not in self._said:
            self._said.add((name, row["hash"]))
            row["options"] = {option: words[:_TEXT_LIMIT] for option, (_, words) in options.items() if option}
        return row

    def of_details(self, details: Any, get_hash: Callable[[Any], str]) -> list[Args]:
        """Those of AOTAutograd's key, hashed as it hashes the whole."""
        components = []
        for name, value in self._parts(details):
            if name.startswith(_FOLDED):
                continue
            digest = short(get_hash(value))
            components.append(self._component(name, digest, _words(name, digest, text(value))))
        return components + [
            self._component(f"{name}[{option}]", short(repr(value)), text(value))
            for name in _CONFIGS
            for option, value in _config(getattr(details, name, None)).items()
            if _ADDRESS.sub("", str(value)) != self._default(name).get(option)
        ]

    def _parts(self, details: Any) -> Iterator[tuple[str, Any]]:
        for name, value in vars(details).items():
            if name in _CONFIGS:
                continue
            if isinstance(value, list):
                yield from ((f"{name}[{at}]", item) for at, item in enumerate(value))
            elif isinstance(value, dict):
                yield from ((f"{name}[{key}]", item) for key, item in value.items())
            else:
                yield name, value

    def _line(self, line: str) -> tuple[str, str, str] | None:
        """Name, hash and words of one line; None of a setting that is as usual."""
        if line not in self._known:
            if len(self._known) >= _MOST_LINES:
                self._known.clear()
            self._known[line] = self._read(line)
        return self._known[line]

    def _read(self, line: str) -> tuple[str, str, str] | None:
        if (head := _LINE.match(line)) is None:
            return None
        name, words = head[2], _ADDRESS.sub("", line[head.start(3) :])
        stem, _, option = name.partition("[")
        if stem in _CONFIGS and self._default(stem).get(option.rstrip("]")) == words:
            return None
        digest = short(head[1])
        return name, digest, _words(name, digest, words) or ""

    def _default(self, config: str) -> dict[str, str]:
        if config not in self._defaults:
            module = sys.modules.get(_CONFIGS[config])
            entries, given = getattr(module, "_config", {}), set_options(module)
            self._defaults[config] = {
                name: _ADDRESS.sub("", str(entry.default))
                for name, entry in entries.items()
                if hasattr(entry, "default") and name not in given
            }
        return self._defaults[config]

    def _component(self, name: str, digest: str, words: str | None) -> Args:
        row: Args = {"name": name, "hash": digest}
        if words is not None and (name, digest) not in self._said:
            self._said.add((name, digest))
            row["text"] = words[:_TEXT_LIMIT]
        return row


def _words(name: str, digest: str, words: str | None) -> str | None:
    """A component's words; torch's own sources are known by a hash, which means nothing to a reader."""
    if name == "torch_version":
        return f"{getattr(sys.modules.get('torch'), '__version__', 'torch')}, sources {digest[:8]}"
    return words


def text(value: Any) -> str | None:
    """A value in words, where it is of a kind that has some."""
    torch: Any = sys.modules.get("torch")
    if isinstance(value, (bool, int, float, str)) or value is None or isinstance(value, torch.dtype):
        return _ADDRESS.sub("", str(value))
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}[{','.join(map(str, value.shape))}] {value.device.type}".removeprefix("torch.")
    if isinstance(value, torch.fx.GraphModule):
        return str(value.code)
    if isinstance(value, (list, tuple)) and len(value) < 100:
        parts = [text(item) for item in value]
        return f"[{', '.join(part for part in parts if part is not None)}]" if None not in parts else None
    return None


def answered(metadata: Mapping[str, Any], components: Components) -> Args:
    """The details of a lookup in an instant's metadata, beside its outcome."""
    answer: Args = {}
    if key := metadata.get("key"):
        answer["key"] = str(key)
    if reason := metadata.get("cache_bypass_reason"):
        answer["why_text"] = _ADDRESS.sub("", str(reason)).strip()[:256]
    given = metadata.get("components")
    if isinstance(given, (list, tuple)) and given:
        lines = list(map(str, given))
        answer["components"] = components.of_lines(lines)
        if backward := next((line for line in lines if f"] {_IS_BACKWARD}: " in line), None):
            answer["part"] = "backward" if backward.endswith("True") else "forward"
    return answer


class Writes:
    """The stored entry, by key; and on a miss of AOTAutograd's cache, its components."""

    def __init__(self, components: Components, kernel: Callable[[bool], None], guarded: Callable[..., Any]) -> None:
        self._components, self._guarded, self._kernel = components, guarded, guarded(kernel)
        self._patches: list[Patch] = []
        self._made: dict[str, list[Args]] = {}
        self._there: set[str] = set()
        self._damaged: set[str] = set()
        self._stored: dict[str, Args] = {}
        self.sees_autograd = False
        """Whether what AOTAutograd stores is seen."""
        self.sees_keys = False
        """Whether what its keys are made of is."""

    def watch_inductor(self, module: ModuleType) -> None:
        """Inductor's module is there."""
        self._watch_store(names.GRAPH_STORE)
        if names.GRAPH_LOOKUP.form() is not None:
            self._watch_lookup(names.GRAPH_LOOKUP.find())
        if (real := names.KERNELS.find()) is None:
            return
        wrote = self._guarded(self._wrote_source)

        def write(content: Any, extension: str, *args: Any, **kwargs: Any) -> Any:
            written = real(content, extension, *args, **kwargs)
            wrote(extension, written)
            return written

        self._patches.append(Patch(module, "write", write))

    def watch_autograd(self, module: ModuleType) -> None:
        """AOTAutograd's module is there."""
        self.sees_autograd = self._watch_store(names.AUTOGRAD_STORE)
        form, cache = names.AUTOGRAD_KEY.form(), names.AUTOGRAD_STORE.find()
        if form is None or form.says or cache is None:
            return
        made, real = self._guarded(self._made_key), form.find()

        def debug_lines(pickler: Any, details: Any, key: str) -> Any:
            made(cache, pickler, details, key)
            return real(pickler, details, key)

        self._patches.append(Patch(module, form.name, debug_lines))
        self.sees_keys = True

    def remove(self) -> list[str]:
        """Undo the patches that are still ours."""
        return undo_all(self._patches)

    def components_of(self, key: str | None) -> list[Args]:
        """Those of AOTAutograd's key that was missed, once."""
        return self._made.pop(key or "", [])

    def not_taken(self, key: str | None) -> Args:
        """For a miss of AOTAutograd's: the words where an entry was there when its key was made; once."""
        return _unreadable(self._there, key, "PyTorch could not load it, or a graph that it names")

    def not_loaded(self, key: str | None) -> Args:
        """For a miss in the cache of graphs: the words where an entry was there when it was looked for; once."""
        return _unreadable(self._damaged, key, "PyTorch could not load it")

    def stored(self, key: str | None) -> Args | None:
        """What became of storing an entry under this key; None where it was not tried."""
        return self._stored.get(key or "")

    def _watch_lookup(self, cache: Any) -> None:
        real, looked = cache.find_guarded_entry.__func__, self._guarded(self._looked)
        is_there = self._guarded(lambda key: _holds(cache._get_tmp_dir_for_key(key)))

        def find_guarded_entry(cls: Any, key: str, local: bool, *args: Any, **kwargs: Any) -> Any:
            was_there = local and is_there(key)  # else PyTorch looks for it elsewhere alone
            answer = real(cls, key, local, *args, **kwargs)
            looked(key, was_there, answer)
            return answer

        self._patches.append(Patch(cache, "find_guarded_entry", classmethod(find_guarded_entry)))

    def _looked(self, key: str, was_there: bool | None, answer: Any) -> None:
        graph, _, about = answer
        if was_there and graph is None and about.get("cache_status_detailed") == "full_miss":
            self._damaged.add(key)

    def _made_key(self, cache: Any, pickler: Any, details: Any, key: str) -> None:
        # an entry that is there will be a hit, and a hit needs no more than its key
        if os.path.exists(cache._get_tmp_dir_for_key(key)):
            self._there.add(key)
        else:
            self._made[key] = self._components.of_details(details, pickler.get_hash)

    def _wrote_source(self, extension: str, written: Any) -> None:
        if extension == "main.cpp" and isinstance(written, tuple):
            self._kernel(os.path.exists(f"{str(written[1]).removesuffix('.cpp')}.so"))

    def _watch_store(self, hook: Hook) -> bool:
        """Whether what a cache stores is seen from now on."""
        if (form := hook.form()) is None:
            return False
        cache, (save, write_local) = form.find(), form.has
        write, save_it = getattr(cache, write_local), getattr(cache, save)
        wrote, failed, saved = (self._guarded(each) for each in (self._wrote, self._failed, self._saved))

        def write_to_local_cache(key: str, content: bytes) -> Any:
            try:
                done = write(key, content)
            except our_errors() as error:
                failed(key, error)
                raise
            wrote(key)
            return done

        def save_entry(key: str, *args: Any, **kwargs: Any) -> Any:
            try:
                return save_it(key, *args, **kwargs)
            finally:
                saved(key)

        ours = {write_local: write_to_local_cache, save: save_entry}
        self._patches += [Patch(cache, name, staticmethod(hook)) for name, hook in ours.items()]
        return True

    def _wrote(self, key: str) -> None:
        self._stored[key] = {"written": True}

    def _failed(self, key: str, error: Exception) -> None:
        why = _ERRORS.get(getattr(error, "errno", None) or 0)
        self._stored[key] = {"written": False, "why": why, "why_text": first_line(error)}

    def _saved(self, key: str) -> None:
        words = "PyTorch could not store it: what it compiled to cannot be pickled"
        self._stored.setdefault(key, {"written": False, "why": "unpicklable", "why_text": words})


def _unreadable(keys: set[str], key: str | None, why: str) -> Args:
    """What a miss is where its key is among these, which it is once."""
    if key not in keys:
        return {}
    keys.remove(key)
    return {"state": "unreadable", "why_text": f"an entry is there: {why}"}


def _holds(folder: str) -> bool:
    """Whether entries are in it; what begins with a dot is one that is being written."""
    return os.path.isdir(folder) and any(not name.startswith(".") for name in os.listdir(folder))


def _config(saved: Any) -> dict[str, Any]:
    """A configuration in AOTAutograd's key: pickled in this process, a moment ago."""
    if isinstance(saved, bytes):
        import pickle  # which PyTorch has imported

        saved = pickle.loads(saved)
    return dict(saved) if isinstance(saved, Mapping) else {}


# --- which options of PyTorch's configurations the environment has set -----------------------------------------------


# PyTorch 2.13: "cpp_wrapper: bool = os.environ.get("TORCHINDUCTOR_CPP_WRAPPER", "0") == "1""
# PyTorch 2.13: "class triton:"
# PyTorch 2.13: "    autotune_pointwise = True"
# PyTorch 2.13: "def prologue_fusion_enabled() -> bool:"
_STATEMENT = expression(r"(?P<within> {4})?(?P<kind>class |def )?(?P<name>\w+)\s*[:=(]")


def set_options(module: ModuleType | None) -> set[str]:
    """The options that the module's source makes of variables that are set."""
    try:
        with open(getattr(module, "__file__", None) or "", encoding="utf-8") as file:
            return options_of(file.read(), os.environ)
    except OSError:
        return set()


def options_of(source: str, variables: Iterable[str]) -> set[str]:
    """The same, of a source and the names of variables."""
    if not (given := [f'"{name}"' for name in variables if f'"{name}"' in source]):
        return set()
    lines = list(zip(source.splitlines(), _options(source), strict=True))
    options = {option for line, option in lines if any(name in line for name in given)}
    makers = [f"{option}(" for option in options]
    return options | {option for line, option in lines if any(maker in line for maker in makers)}


def _options(source: str) -> Iterable[str]:
    """Of each line, the option that it belongs to, or the function."""
    owner, option = "", ""
    for line in source.splitlines():
        if (match := _STATEMENT.match(line)) is not None and not match["within"]:
            option, owner = match["name"], f"{match['name']}." if match["kind"] == "class " else ""
        elif match is not None and owner:
            option = owner + match["name"]
        yield option
