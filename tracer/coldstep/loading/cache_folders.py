"""What a cache folder or a Mega-cache file holds: read as bytes by its framework's layout, nothing in it is ever run.

No pickle is loaded: of an entry that is one, only whether it is whole is reported. The files are somebody's, and may be
anything.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import pickletools
import re
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from coldstep._util.slotted import slotted
from coldstep.errors import TraceError

WHOLE, CORRUPT, UNKNOWN = "whole", "corrupt", "unknown"

# JAX 0.10: "jit_train_step-36e864bd5ddd32d4b3490cfde63514f93a70ebe6dc73eb39a1a3dd842253540e-cache"
_JAX = re.compile(r"(?:jit_+)?(.+)-([0-9a-f]{64})-cache")
# PyTorch 2.13: "cplje3n6ev3ymedsgtk4ebtlve3mqa7uimv26umeh35jv3dzae6p.main.cpp"
_SOURCE = re.compile(r"(\w+)(?:\.main)?\.cpp")
# torch_xla 2.9: "335562915937403984026091498305117953843"
_XLA = re.compile(r"\d{30,39}")
# Triton 3.5: "__grp__triton_poi_fused_sin_0.json"
_TRITON = re.compile(r"__grp__(.+)\.json")
# PyTorch 2.13: "code_state_job_0_0.pkl"
_PROFILE = re.compile(r"code_state_(.+)\.pkl")
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_REPEATED_BLOCK, _RESERVED_BLOCK = 1, 3
_LAYER_OF_TYPE = {"inductor": "inductor.fx_graph", "aot_autograd": "aot.autograd", "pgo": "dynamo.pgo"}
_FOLDERS = {"fxgraph": "inductor.fx_graph", "aotautograd": "aot.autograd"}
_MOST_ENTRIES = 100_000
_MOST_BYTES = 1 << 30  # of a file, or of what it is decompressed to
_MOST_PICKLED = 64 << 20
_MOST_OPERATIONS = 2_000_000
_PIECE = 1 << 20
_MEGA_VERSION = 1
_ONLY_FRAMEWORK = "only the framework can open it"


@slotted
class Entry:
    """One entry of a cache on disk."""

    layer: str
    """One of `vocabulary.CACHES`."""
    function: str | None
    """Its purpose; None where only the framework knows it."""
    key: str
    bytes: int
    compile_s: int | None
    """How long it had compiled, in whole seconds; None where the entry does not show it."""
    state: str
    """Whole, corrupt, or unknown."""
    why: str = ""


def holds(path: str) -> tuple[list[Entry], list[str]]:
    """What the folder of a cache, or a Mega-cache file, holds, and of each part that cannot be read why.

    Raises TraceError for a path that is neither, or cannot be read at all.
    """
    place = Path(path)
    try:
        if place.is_dir():
            lost: list[str] = []
            entries = list(_in_folder(place, lost))
            if lost and not entries:
                raise TraceError(lost[0])
            return entries, lost
        if not place.is_file():
            raise TraceError(f"there is no folder or file {path}")
        if place.stat().st_size > _MOST_BYTES:
            raise TraceError(f"{path} is larger than a Mega-cache that is read here")
        return list(_in_mega_cache(path, place.read_bytes())), []
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error


# --- folders ------------------------------------------------------------------------------------------------------


def _in_folder(top: Path, lost: list[str]) -> Iterator[Entry]:
    number = 0

    def left_out(error: OSError) -> None:
        lost.append(f"cannot read {error.filename}: {error.strerror}")

    for folder, folders, files in os.walk(top, onerror=left_out):
        folders.sort()
        for name in sorted(files):
            try:
                entry = _of_file(top, Path(folder, name))
            except FileNotFoundError:  # a job that uses the cache has removed it meanwhile
                continue
            except OSError as error:
                left_out(error)
                continue
            if entry is not None:
                number += 1
                yield entry
            if number >= _MOST_ENTRIES:
                return


def _of_file(top: Path, path: Path) -> Entry | None:
    about = path.lstat()
    if not S_ISREG(about.st_mode):
        return None
    size = about.st_size
    if (jax := _JAX.fullmatch(path.name)) is not None:
        return _of_jax(path, jax[1], jax[2], size)
    if _XLA.fullmatch(path.name):
        return Entry("torch_xla.persistent", None, path.name, size, None, UNKNOWN, _ONLY_FRAMEWORK)
    if (source := _SOURCE.fullmatch(path.name)) is not None:
        built = path.with_suffix(".so")
        state = WHOLE if built.is_file() and built.stat().st_size else UNKNOWN
        why = "" if state == WHOLE else "its source is there, what a compiler makes of it is not"
        size += built.stat().st_size if state == WHOLE else 0
        return Entry("inductor.cpp", None, source[1], size, None, state, why)
    if (triton := _TRITON.fullmatch(path.name)) is not None:
        return _of_triton(path, triton[1], size)
    if (profile := _PROFILE.fullmatch(path.name)) is not None:
        return _pickled("dynamo.pgo", profile[1], path.read_bytes() if size <= _MOST_PICKLED else b"", size)
    parts = path.relative_to(top).parts
    layer = next((_FOLDERS[part] for part in parts if part in _FOLDERS), None)
    if layer is None:
        return None
    return _pickled(layer, path.parent.name, path.read_bytes() if size <= _MOST_PICKLED else b"", size)


def _of_jax(path: Path, function: str, key: str, size: int) -> Entry:
    """Four bytes of seconds, then XLA's own form, together compressed."""
    entry = Entry("xla.persistent", function, key, size, None, WHOLE)
    with path.open("rb") as file:
        begin = file.read(4)
        if begin == _ZSTANDARD:
            entry.why = _of_zstandard(file)
            entry.state = CORRUPT if entry.why else WHOLE
            return entry
        stream, head, total, piece = zlib.decompressobj(), b"", 0, begin
        try:
            while piece and total < _MOST_BYTES:
                got = stream.decompress(piece, _PIECE)
                head = (head + got)[:4] if len(head) < 4 else head
                total += len(got)
                piece = stream.unconsumed_tail or file.read(_PIECE)
        except zlib.error as error:
            entry.state, entry.why = CORRUPT, f"{error}; JAX does not replace it"
            return entry
    if not stream.eof or total < 4:
        entry.state, entry.why = (UNKNOWN, "too large") if total >= _MOST_BYTES else (CORRUPT, "it was cut")
        return entry
    entry.compile_s = int.from_bytes(head, "big")
    return entry


def _of_zstandard(file: BinaryIO) -> str:
    """What is wrong with a frame of Zstandard (RFC 8878) behind its magic number, "" where it is whole: its blocks are
    gone through, and not decompressed."""
    head = (file.read(1) or b"\0")[0]
    single, dictionary, length = head >> 5 & 1, head & 3, head >> 6
    file.seek((not single) + (0, 1, 2, 4)[dictionary] + (single, 2, 4, 8)[length], os.SEEK_CUR)
    for _ in range(_MOST_OPERATIONS):
        block = int.from_bytes(file.read(3).ljust(3, b"\xff"), "little")
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        if kind == _RESERVED_BLOCK:
            return "it was cut, or is damaged"
        file.seek(1 if kind == _REPEATED_BLOCK else size, os.SEEK_CUR)
        if last:
            break
    end = file.tell() + (4 if head & 4 else 0)  # of its checksum
    return "" if file.seek(0, os.SEEK_END) == end else "it was cut, or is damaged"


def _of_triton(path: Path, function: str, size: int) -> Entry:
    """The list of a kernel's files, which stand beside it."""
    entry = Entry("triton", function, path.parent.name, size, None, WHOLE)
    try:
        with path.open("rb") as file:
            names = json.loads(file.read(_PIECE))["child_paths"]
        files = [path.with_name(os.path.basename(str(name))) for name in names]
    except (ValueError, KeyError, TypeError, RecursionError):
        entry.state, entry.why = CORRUPT, "its list of files is damaged"
        return entry
    lost = [file.name for file in files if not os.path.isfile(file)]  # False, too, of a name that no file can have
    if lost:
        entry.state, entry.why = CORRUPT, f"{lost[0]} is not there"
    entry.bytes += sum(file.stat().st_size for file in files if file.name not in lost)
    return entry


def _pickled(layer: str, key: str, content: bytes, size: int) -> Entry:
    entry = Entry(layer, None, key, size, None, WHOLE, _ONLY_FRAMEWORK)
    operations = islice(pickletools.genops(content), _MOST_OPERATIONS)
    try:
        if len(content) != size or sum(1 for _ in operations) == _MOST_OPERATIONS:
            entry.state, entry.why = UNKNOWN, "too large to be looked into"
    except Exception as error:  # whatever a file that is no pickle makes of its reader
        entry.state, entry.why = CORRUPT, f"no whole pickle: {type(error).__name__}"
    return entry


# --- Mega-cache ---------------------------------------------------------------------------------------------------


class _Reader:
    """PyTorch's numbers and texts with their lengths before them."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise ValueError("it was cut")
        self._at += size
        return bytes(self._data[self._at - size : self._at])

    def number(self) -> int:
        return int.from_bytes(self.take(8), "big")

    def text(self) -> str:
        return base64.b64decode(self.take(self.number()), validate=True).decode("utf-8", "replace")


def _in_mega_cache(path: str, data: bytes) -> Iterator[Entry]:
    reader = _Reader(data)
    try:
        checksum, version = int.from_bytes(reader.take(4), "big"), reader.number()
        if version != _MEGA_VERSION or checksum != zlib.crc32(memoryview(data)[4:]):
            raise ValueError("its checksum, or its version, is another")
        entries: list[Entry] = []
        while reader and len(entries) < _MOST_ENTRIES:
            kind = reader.text()
            for _ in range(reader.number()):
                key, content = reader.text(), reader.take(reader.number())
                entries.append(_of_artifact(kind, key, content))
    except (ValueError, binascii.Error) as error:
        raise TraceError(f"{path} is no whole Mega-cache: {error}") from error
    yield from entries


def _of_artifact(kind: str, key: str, content: bytes) -> Entry:
    layer = _LAYER_OF_TYPE.get(kind, kind)
    if kind in ("inductor", "aot_autograd"):
        return _pickled(layer, key, content, len(content))
    return Entry(layer, None, key, len(content), None, UNKNOWN, _ONLY_FRAMEWORK)
