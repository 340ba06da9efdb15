"""How JAX's persistent cache keys each program, whether it had it, and why nothing was stored: read where JAX does it.

JAX makes a key for every program, with a cache or without one; what it hashes is listened to, and hashed once more by
component. Every name used here is tested for first.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import cache, wraps
from inspect import signature
from typing import Any, Protocol

from coldstep._util.command_secrets import hidden
from coldstep._util.slotted import field, slotted
from coldstep.blind_spots import Unseen
from coldstep.clock import now
from coldstep.errors import first_line, our_errors
from coldstep.events import Args
from coldstep_collectors.patch import Patch, undo_all
from coldstep_collectors.sha import sha256

_UNSEEN_KEYS = Unseen("what the keys of the persistent cache are made of (this version of JAX makes them another way)")
_UNSEEN_WRITES = Unseen("what the persistent cache stored, and why not (this version of JAX does it another way)")
_NO_FOLDER = "no directory is set: jax_compilation_cache_dir"
_TEXT_LIMIT = 1024
_COMPUTATION, _OPTIONS = "computation", "compile_options"
_WITH_PLACES = "compilation_cache_include_metadata_in_key"
_PLAIN = (bool, int, float, str)


class Guard(Protocol):
    """Makes a hook safe: it returns None, and never raises."""

    def __call__(self, hook: Callable[..., Any]) -> Callable[..., Any]: ...


@slotted
class Lookup:
    """What the persistent cache did about one program."""

    key: str = ""
    components: list[Args] = field(default_factory=list)
    """Name, hash, and the value in words where this process has not written it yet."""
    program: str | None = None
    state: str | None = None
    """Where it is more than JAX's events show."""
    written: bool | None = None
    """None where nothing was to be written."""
    why: str | None = None
    """Why it was not, in a word of `coldstep.vocabulary.UNWRITTEN`."""
    why_text: str = ""
    load_ns: int | None = None
    self_ns: int = 0

    def args(self) -> Args:
        """As a compile's arguments list it: without unknown values."""
        names = ("key", "components", "state", "written", "why", "why_text", "load_ns", "self_ns")
        return {name: value for name in names if (value := getattr(self, name)) not in (None, "", [])}


class _Thread(threading.local):
    """What this thread's compile has come to."""

    def __init__(self) -> None:
        self.keys: dict[str, Lookup] = {}
        self.lookup: Lookup | None = None
        self.components: list[Args] = []
        self.made_of: Args = {}
        self.error: str | None = None
        self.errno: int | None = None
        self.put: tuple[int, int | None] | None = None


class _Tee:
    """A hash that also gathers what it is given, by reference."""

    def __init__(self, data: bytes = b"") -> None:
        self._hash = sha256(data)
        self.parts: list[bytes] = [data] if data else []

    def update(self, data: bytes) -> None:
        self._hash.update(data)
        self.parts.append(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hash, name)


class _Hashlib:
    """The module, as JAX's makers of keys see it."""

    sha256 = _Tee

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.modules["hashlib"], name)


class Lookups:
    """Watches JAX's cache keys, its reads and its writes."""

    def __init__(self, missing: list[str], guarded: Guard) -> None:
        self._thread = _Thread()
        self._guarded = guarded
        self._keys: Any = sys.modules.get("jax._src.cache_key")
        self._cache: Any = sys.modules.get("jax._src.compilation_cache")
        self._compiler: Any = sys.modules.get("jax._src.compiler")
        self._config: Any = sys.modules.get("jax._src.config")
        self._said: set[tuple[str, str]] = set()
        self._was_off = False
        self._undo: list[Patch] = []
        sees_keys = self._has(self._keys, "hashlib", "get", "_log_cache_key_hash")
        sees_writes = self._has(self._cache, "put_executable_and_time", "get_executable_and_time") and self._has(
            self._compiler, "_cache_read", "_cache_write"
        )
        self._sees_all = sees_keys and sees_writes
        if sees_keys:
            self._watch_keys()
        else:
            missing.append(_UNSEEN_KEYS)
        if sees_writes:
            self._watch_reads()
            self._watch_writes()
        else:
            missing.append(_UNSEEN_WRITES)

    @staticmethod
    def _has(module: Any, *names: str) -> bool:
        return all(hasattr(module, name) for name in names)

    def undo(self) -> str | None:
        """Remove all of it; returns, in words, the parts that are no longer ours to remove."""
        return ", ".join(dict.fromkeys(undo_all(self._undo))) or None

    def begin(self) -> None:
        """XLA's part of a compile begins on this thread."""
        thread = self._thread
        thread.keys, thread.lookup = {}, None
        thread.error = thread.errno = thread.put = None

    def take(self) -> Lookup:
        """What became of the program whose compilation ends on this thread."""
        thread = self._thread
        lookup = thread.lookup or (next(reversed(thread.keys.values())) if thread.keys else Lookup())
        thread.keys, thread.lookup = {}, None
        if lookup.load_ns is None and self._sees_all:
            self._explain(lookup)
        return lookup

    # --- keys -------------------------------------------------------------------------------------------------

    def _watch_keys(self) -> None:
        keys, thread = self._keys, self._thread
        heard, made = self._guarded(self._heard), self._guarded(self._made)
        log, get = keys._log_cache_key_hash, keys.get
        names = list(signature(get).parameters)

        @wraps(log)
        def listening(hash_obj: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            heard(hash_obj, name)
            return log(hash_obj, name, *args, **kwargs)

        @wraps(get)
        def making(*args: Any, **kwargs: Any) -> Any:
            begun = now()
            thread.components, thread.made_of = [], dict(zip(names, args, strict=False)) | kwargs
            try:
                key = get(*args, **kwargs)
            finally:
                thread.made_of = {}
            made(key, begun)
            return key

        self._replace(keys, "_log_cache_key_hash", listening)
        self._replace(keys, "get", making)
        self._replace(keys, "hashlib", _Hashlib())

    def _heard(self, hash_obj: Any, name: str) -> None:
        if not isinstance(hash_obj, _Tee):
            return
        raw = b"".join(hash_obj.parts)
        hash_obj.parts.clear()
        digest = sha256(raw).hexdigest()[:16]
        component: Args = {"name": name, "hash": digest}
        if (name, digest) not in self._said:
            self._said.add((name, digest))
            component["text"] = self._text(name, raw)
        self._thread.components.append(component)

    def _made(self, key: str, begun: int) -> None:
        thread = self._thread
        lookup = thread.keys[key] = Lookup(key, thread.components, self_ns=now() - begun)
        if self._option(_WITH_PLACES):  # JAX says so of no component
            digest = sha256(b"True").hexdigest()[:16]
            lookup.components.append({"name": f"jax_{_WITH_PLACES}", "hash": digest, "text": "True"})
        else:
            computation = [row["hash"] for row in thread.components if row["name"] == _COMPUTATION]
            lookup.program = f"1:{computation[0]}" if computation else None
        thread.components = []

    def _text(self, name: str, raw: bytes) -> str:
        """A component's value, as a person reads it; "" where it has no such form."""
        try:
            return self._value(name, raw)[:_TEXT_LIMIT]
        except our_errors():  # another version's objects
            return ""

    def _value(self, name: str, raw: bytes) -> str:
        if name == _COMPUTATION:
            return f"{len(raw):,} bytes of MLIR"
        if name == "XLA flags":
            return " ".join(hidden(self._flags()))
        if name == _OPTIONS:
            return self._options()
        if name == "accelerator_config":
            return self._devices()
        text = raw.decode("utf-8", "replace")
        return hidden([text])[0] if text.isprintable() else f"{len(raw):,} bytes"

    def _flags(self) -> list[str]:
        """XLA's flags, as JAX gathers them for its key."""
        words = [*os.environ.get("XLA_FLAGS", "").split(), *os.environ.get("LIBTPU_INIT_ARGS", "").split()]
        prefixes = tuple(getattr(self._keys, "_extra_flag_prefixes", ()))
        words += (word for word in sys.argv if isinstance(word, str) and word.startswith(("--xla", *prefixes)))
        return sorted(flag for flag in words if flag.split("=")[0] not in self._excluded())

    def _excluded(self) -> list[str]:
        return getattr(self._keys, "xla_flags_to_exclude_from_cache_key", [])

    def _options(self) -> str:
        """What in the compile options is not as a fresh object has it, a line each."""
        client: Any = sys.modules.get("jaxlib.xla_client") or sys.modules.get("jax._src.lib.xla_client")
        usual, usual_debug = _usual(client)
        options = self._thread.made_of["compile_options"]
        texts = {name: text for name, text in _fields(options).items() if text != usual.get(name)}
        if (debug := _debug(options)) != usual_debug:
            usual_lines = frozenset(usual_debug.splitlines())
            for line in debug.splitlines():  # hundreds, of which hardly one is another
                name, colon, text = line.partition(":")
                if line not in usual_lines and colon:
                    texts[name.strip()] = " ".join(text.split())
        left_out = {flag.strip("-") for flag in self._excluded()}
        return "\n".join(f"{name}: {text}" for name, text in texts.items() if name not in left_out)

    def _devices(self) -> str:
        """The accelerators that this process's programs are made for."""
        backend = self._thread.made_of["backend"]
        number, kind = backend.device_count(), backend.devices()[0].device_kind
        return f"{number} {kind} device{'s' if number != 1 else ''}, process {backend.process_index()}"

    # --- reads ------------------------------------------------------------------------------------------------

    def _watch_reads(self) -> None:
        thread = self._thread
        asked, raised = self._guarded(self._asked), self._guarded(self._raised)
        read, fetch = self._compiler._cache_read, self._cache.get_executable_and_time
        position = _position(read, "cache_key")

        @wraps(read)
        def reading(*args: Any, **kwargs: Any) -> Any:
            begun = now()
            thread.error = None
            answer = read(*args, **kwargs)
            key = kwargs.get("cache_key", args[position] if len(args) > position else "")
            asked(key, isinstance(answer, tuple) and answer[0] is not None, now() - begun)
            return answer

        self._replace(self._compiler, "_cache_read", reading)
        self._replace(self._cache, "get_executable_and_time", _telling(fetch, raised))

    def _asked(self, key: str, hit: bool, ns: int) -> None:
        lookup = self._thread.lookup = self._thread.keys.get(key) or Lookup(str(key))
        if hit:
            lookup.load_ns = ns
            return
        lookup.self_ns += ns
        if self._thread.error is not None and self._is_made():
            lookup.state, lookup.why, lookup.why_text = "unreadable", "corrupt", self._thread.error
        elif self._thread.error is not None:
            lookup.why_text = self._thread.error
        self._thread.error = None

    def _raised(self, error: Exception) -> None:
        self._thread.error = first_line(error)
        self._thread.errno = getattr(error, "errno", None)

    # --- writes -----------------------------------------------------------------------------------------------

    def _watch_writes(self) -> None:
        thread = self._thread
        wrote, raised, putting = (self._guarded(hook) for hook in (self._wrote, self._raised, self._putting))
        write, put = self._compiler._cache_write, self._cache.put_executable_and_time
        names = list(signature(write).parameters)

        @wraps(write)
        def writing(*args: Any, **kwargs: Any) -> Any:
            begun = now()
            thread.error = thread.errno = thread.put = None
            try:
                return write(*args, **kwargs)
            finally:
                given = dict(zip(names, args, strict=False)) | kwargs
                seconds, callbacks = given.get("compile_time_secs"), given.get("host_callbacks")
                wrote(seconds, bool(callbacks), now() - begun)

        self._replace(self._compiler, "_cache_write", writing)
        self._replace(self._cache, "put_executable_and_time", _telling(put, raised))
        store: Any = getattr(sys.modules.get("jax._src.lru_cache"), "LRUCache", None)
        if store is None or not hasattr(store, "put"):
            return
        store_it = store.put

        @wraps(store_it)
        def storing(cache: Any, key: str, value: bytes, *args: Any, **kwargs: Any) -> Any:
            putting(cache, value)
            return store_it(cache, key, value, *args, **kwargs)

        self._replace(store, "put", storing)

    def _putting(self, cache: Any, value: bytes) -> None:
        limited = getattr(cache, "eviction_enabled", False)
        self._thread.put = len(value), getattr(cache, "max_size", None) if limited else None

    def _wrote(self, seconds: float | None, has_callbacks: bool, ns: int) -> None:
        """A write was tried: what came of it, by JAX's own rules in JAX's own order."""
        lookup = self._thread.lookup
        if lookup is None or getattr(self._cache, "_cache", None) is None:
            return
        lookup.self_ns += ns
        lookup.written = False
        fastest, smallest = (
            self._option(f"persistent_cache_min_{name}") for name in ("compile_time_secs", "entry_size_bytes")
        )
        distributed: Any = sys.modules.get("jax._src.distributed")
        put, error = self._thread.put, self._thread.error
        if process := getattr(getattr(distributed, "global_state", None), "process_id", 0):
            lookup.why, lookup.why_text = "not_first_process", f"only process 0 stores programs, this is {process}"
        elif has_callbacks:
            lookup.why, lookup.why_text = (
                "host_callback",
                "it calls back into this process (jax.debug.print, callbacks)",
            )
        elif seconds is not None and fastest is not None and seconds < fastest:
            words = f"it compiled in {seconds:.2f} s; jax_persistent_cache_min_compile_time_secs is {fastest:g}"
            lookup.why, lookup.why_text = "threshold", words
        elif error is not None:
            lookup.why, lookup.why_text = _ERRORS.get(self._thread.errno or 0), error
        elif lookup.state == "unreadable":
            lookup.why_text = f"{lookup.why_text}; JAX does not replace an entry that is there"
        elif put is None:
            if smallest:
                words = f"its entry is smaller than jax_persistent_cache_min_entry_size_bytes, {smallest:,}"
                lookup.why, lookup.why_text = "threshold", words
        elif put[1] is not None and put[0] > put[1]:
            words = f"its entry has {put[0]:,} bytes; jax_compilation_cache_max_size is {put[1]:,}"
            lookup.why, lookup.why_text = "full", words
        else:
            lookup.written = True

    def _explain(self, lookup: Lookup) -> None:
        """Why there is no cache for a program that was not loaded, or another one than is configured."""
        cache, enabled = getattr(self._cache, "_cache", None), self._option("enable_compilation_cache")
        folder = self._option("compilation_cache_dir")
        if not lookup.key:
            lookup.state, lookup.written, lookup.why = "off", False, "disabled"
            if not enabled:
                self._was_off = True
                lookup.why_text = "jax_enable_compilation_cache is off"
            elif not folder:
                lookup.why_text = _NO_FOLDER
            elif self._was_off:
                lookup.why_text = "it was off when the process first compiled, and stays so until the process ends"
            else:
                lookup.why_text = (
                    "this backend stores no programs, or jax_enable_compilation_cache was off when the process first "
                    "compiled"
                )
        elif not folder and cache is None:
            lookup.state, lookup.written, lookup.why = "off", False, "disabled"
            lookup.why_text = _NO_FOLDER
        elif not self._is_made():
            lookup.state, lookup.written, lookup.why = "off", False, "disabled"
            lookup.why_text = ": ".join(filter(None, (f"{folder} was not made a cache", lookup.why_text)))
        elif folder and lookup.why is None:
            path = getattr(cache, "_path", None)
            if path is not None and os.path.normpath(str(path)) != os.path.normpath(str(folder)):
                lookup.why = "late"
                lookup.why_text = f"the directory was set to {folder} after the first compile: JAX goes on with {path}"

    def _is_made(self) -> bool:
        """Whether there is a cache; where that cannot be known, so it is taken."""
        return getattr(self._cache, "_cache", self) is not None

    def _option(self, name: str) -> Any:
        return getattr(getattr(self._config, name, None), "value", None)

    # --- hooks ------------------------------------------------------------------------------------------------

    def _replace(self, owner: Any, name: str, ours: Any) -> None:
        stays = "a wrapper of JAX's persistent cache, which another wrapper calls"
        self._undo.append(Patch(owner, name, ours, stays))


_ERRORS = {13: "read_only", 1: "read_only", 30: "read_only", 28: "full", 122: "full"}
"""What an operating system's error on writing means: EACCES, EPERM, EROFS; ENOSPC, EDQUOT."""


def _telling(function: Callable[..., Any], raised: Callable[..., Any]) -> Any:
    """A function that calls `raised` with whatever it raises."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except our_errors() as error:
            raised(error)
            raise

    return called


def _position(function: Callable[..., Any], name: str) -> int:
    """Where a function takes an argument; 1 where that cannot be known."""
    names = list(signature(function).parameters)
    return names.index(name) if name in names else 1


@cache  # XLA reads its environment once
def _usual(client: Any) -> tuple[dict[str, str], str]:
    """A fresh object's."""
    fresh = client.CompileOptions()
    return _fields(fresh), _debug(fresh)


def _fields(options: Any) -> dict[str, str]:
    """Compile options by name, but for those for debugging. Each object is held while what belongs to it is read: XLA's
    do not hold one another."""
    build = getattr(options, "executable_build_options", None)
    texts: dict[str, str] = {}
    for owner in filter(None, (options, build)):
        kind: Any = type(owner)
        for name in _names(kind):
            if (text := _plain(getattr(owner, name, None))) is not None:
                texts.setdefault(name, text)
    return texts


@cache
def _names(kind: Any) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


def _debug(options: Any) -> str:
    """The options for debugging, a line each."""
    build = getattr(options, "executable_build_options", None)
    debug = getattr(build, "debug_options", None)
    return str(debug).partition("\n")[2] if debug is not None else ""  # the first line is random on purpose


def _plain(value: Any) -> str | None:
    """A value of a kind that is known to have a readable form."""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes, {sha256(value).hexdigest()[:16]}" if value else "none"
    if isinstance(value, _PLAIN) or value is None:
        return str(value)
    if isinstance(value, (list, tuple)):
        parts = [_plain(item) for item in value]
        return f"[{', '.join(part for part in parts if part is not None)}]"
    return str(value) if type(value).__name__ == "DeviceAssignment" else None
