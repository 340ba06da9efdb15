"""DuckDB that reaches nothing but the tables it was given: anybody may have written these, or the question."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

import duckdb

from coldstep.errors import ColdstepError

_MEMORY, _SPILLED = "2GB", "16GB"
_PATIENCE_S = 300.0
_OFF = (
    "preserve_insertion_order",
    "autoinstall_known_extensions",
    "autoload_known_extensions",
    "python_enable_replacements",
)


class QueryError(ColdstepError, ValueError):
    """A question that cannot be answered; the message is the engine's."""


@contextmanager
def sealed(define: Callable[[duckdb.DuckDBPyConnection], None]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with what `define` registers, and to no file, network, extension or setting.

    Raises QueryError for what the engine refuses, and for what takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="coldstep-sql-") as spill:
        limits: dict[str, Any] = {"memory_limit": _MEMORY, "temp_directory": spill, "max_temp_directory_size": _SPILLED}
        connection = duckdb.connect(config=limits | dict.fromkeys(_OFF, "false"))
        late = Timer(_PATIENCE_S, connection.interrupt)
        late.daemon = True
        late.start()
        try:
            define(connection)
            connection.execute("set enable_external_access = false")
            connection.execute("set lock_configuration = true")
            yield connection
        except duckdb.InterruptException:
            raise QueryError(f"the statement takes more than {_PATIENCE_S:.0f} s: ask for less") from None
        except duckdb.Error as error:
            raise QueryError(" ".join(str(error).partition("\n\n")[0].split())) from error
        finally:
            late.cancel()
            late.join()  # it refers to the connection, which must be gone when Python ends
            connection.close()
