"""Tables as Parquet files, in the layout that Spark and DuckDB read without an extension.

Below a folder a table has a folder for each day, `runs/date=2026-11-20/<part>.parquet`. A part is named by the traces
whose rows it has, so whoever writes it again writes the same.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from coldstep_viewers.export.tables import SCHEMAS

_HERE = fs.LocalFileSystem()


def export(made: Mapping[str, pa.Table], folder: Path, part: str) -> list[Path]:
    """Write a trace's tables below a folder, and return the files.

    What an earlier export of the same trace wrote is replaced. Raises OSError.
    """
    day = day_of(made["runs"]["started"][0].as_py())
    files = [folder / file_of(name, day, part) for name in made]
    for file, table in zip(files, made.values(), strict=True):
        write(table, str(file))
    return files


def exported(name: str, folder: Path) -> dict[str, str]:
    """The files of a table below a folder, by part."""
    return {path.stem: str(path) for path in folder.glob(file_of(name, "*", "*"))}


def file_of(name: str, day: str, part: str) -> str:
    """Where the rows of a table lie that are of one day and one part."""
    return f"{name}/date={day}/{part}.parquet"


def day_of(started: datetime) -> str:
    """The day that a run is filed under, with four digits of a year whatever that is."""
    return started.astimezone(UTC).date().isoformat()


def write(table: pa.Table, path: str, system: Any = _HERE) -> None:
    """Write a file of a table, whole or not at all. Raises OSError."""
    with whole(path, system) as file:
        pq.write_table(table, file, compression="zstd")


@contextmanager
def whole(path: str, system: Any) -> Iterator[Any]:
    """A new file, which has its name once it is whole: in an object store it has by itself."""
    if not isinstance(system, fs.LocalFileSystem):
        with system.open_output_stream(path) as file:
            yield file
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    unfinished = f"{path}.{secrets.token_hex(4)}"
    with open(unfinished, "wb") as file:
        yield file
    os.replace(unfinished, path)


def dataset(name: str, files: Sequence[str], texts: Iterable[str] = (), system: Any = _HERE) -> ds.Dataset:
    """The rows of a table that are in these files, with further columns of text."""
    schema = pa.schema([*SCHEMAS[name], *((text, pa.string()) for text in texts)])
    if not files:
        return ds.dataset(schema.empty_table())
    return ds.dataset(list(files), schema=schema, format="parquet", filesystem=system)
