"""Batches as tasks of a Ray cluster that runs already: this neither starts nor stops one.

The nodes must reach sources and tables by the same addresses, with the credentials of their own environment.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import pyarrow as pa
import ray

import coldstep
import coldstep_viewers
from coldstep.errors import first_line
from coldstep_viewers.fleet.ingest import Batch, ingest, without
from coldstep_viewers.fleet.places import FleetError
from coldstep_viewers.fleet.store import Marker
from coldstep_viewers.fleet.workers import KILLED, TRIES, again

_PATIENCE_S = 5.0
_AHEAD = 2  # tasks for each processor of the cluster that it is given at a time


def run(batches: Sequence[Batch], out: str) -> Iterator[Marker]:
    """The marker of each batch as it comes. Raises FleetError where there is no cluster, or it cannot write."""
    _attach()
    try:
        yield from _all(batches, out)
    finally:
        ray.shutdown()  # of our connection


def _all(batches: Sequence[Batch], out: str) -> Iterator[Marker]:
    task = ray.remote(num_cpus=1, max_retries=0)(_ingest)
    waiting = deque((batch, 0) for batch in batches)
    at_once = max(1, int(_AHEAD * ray.cluster_resources().get("CPU", 1)))
    running: dict[ray.ObjectRef, tuple[Batch, int]] = {}
    while waiting or running:
        while waiting and len(running) < at_once:
            batch, tries = waiting.popleft()
            running[task.remote(batch, out)] = batch, tries
        (done, *_), _rest = ray.wait(list(running))
        batch, tries = running.pop(done)
        try:
            answer = ray.get(done)
        except ray.exceptions.RayTaskError as error:
            raise FleetError(f"a task failed on the cluster: {first_line(error.cause)}") from None
        except ray.exceptions.RayError:  # its worker or its node is gone
            if len(batch) == 1 and tries + 1 == TRIES:
                yield without(batch, out, KILLED)
            else:
                waiting.extendleft(reversed(again(batch, tries)))
            continue
        if isinstance(answer, str):
            raise FleetError(f"cannot write {out}: {answer}")
        yield answer


def _ingest(batch: Batch, out: str) -> Marker | str:
    """On a node."""
    pa.set_memory_pool(pa.system_memory_pool())  # others reserve more than the limits allow
    try:
        return ingest(batch, out)
    except (OSError, pa.ArrowException, FleetError) as error:
        return first_line(error)


def _attach() -> None:
    """Raises FleetError within seconds where nothing answers: Ray itself would try for minutes."""
    address = os.environ.get("RAY_ADDRESS", "")
    if not address:
        raise FleetError("--engine ray needs a running cluster: set RAY_ADDRESS to its address, such as 10.0.0.5:6379")
    try:
        split = urlsplit(address if "://" in address else f"//{address}")
        where = split.hostname or "", split.port or 6379
        if address != "auto":
            socket.create_connection(where, _PATIENCE_S).close()
    except (OSError, ValueError) as error:
        raise FleetError(f"no Ray cluster answers at RAY_ADDRESS={address}: {error}") from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    modules = [os.path.dirname(module.__file__ or "") for module in (coldstep, coldstep_viewers)]
    try:
        # what a task prints would land in our output; the nodes may have no coldstep, or another one
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
        ray.init(address, runtime_env={"py_modules": modules}, **quiet)
    except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
        raise FleetError(f"cannot attach to the Ray cluster at {address}: {first_line(error)}") from None
