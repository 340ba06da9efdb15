"""The report of a fleet's tables, as one document: findings, then sections, and the unreadable traces."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from coldstep_viewers.fleet.database import opened
from coldstep_viewers.fleet.differences import Difference, differences
from coldstep_viewers.fleet.places import FleetError
from coldstep_viewers.fleet.sections import Section, sections
from coldstep_viewers.fleet.store import COPY, READ, Marker, Outcome, Store, latest

SCHEMA = "coldstep-fleet/1"


@dataclass(frozen=True, slots=True)
class Report:
    """The content of `coldstep fleet report`."""

    tables: str
    """Where they are."""
    runs: int
    processes: int
    hosts: int
    findings: list[Difference]
    sections: list[Section]
    states: dict[str, int]
    """How many objects of the sources are in which state."""
    unread: list[Outcome]
    """Those that were not read, or not to an end."""
    lost: list[str]
    """Why tables, markers or traces in them were left out."""

    def to_json(self) -> dict[str, Any]:
        """The document that `--json` prints."""
        number = {"runs": self.runs, "processes": self.processes, "hosts": self.hosts}
        head = {"schema": SCHEMA, "tables": self.tables} | number | {"findings": list(map(asdict, self.findings))}
        unread = [{"uri": each.uri, "state": each.state, "why": each.why} for each in self.unread]
        rows = {section.name: section.rows for section in self.sections}
        return head | rows | {"objects": self.states, "unread": unread, "left_out": self.lost}


def report(tables: str, by: str | None = None) -> Report:
    """The report of the tables at an address. Raises FleetError."""
    store, lost = Store(tables), list[str]()
    markers = store.readable(lost)
    try:
        return _report(store, markers, lost, by)
    except FleetError:
        whole = store.whole(markers, lost)
        if len(whole) == len(markers):
            raise
    return _report(store, whole, lost, by)


def _report(store: Store, markers: list[Marker], lost: list[str], by: str | None) -> Report:
    with opened(store, markers, lost) as database:
        outcomes = latest(database.markers).values()
        [numbers] = database.rows(
            "select count(distinct run) as runs, count(*) as processes, count(distinct host) as hosts from members"
        )
        states = dict(Counter(each.state for each in outcomes))
        unread = sorted((each for each in outcomes if each.state not in (READ, COPY)), key=lambda each: each.uri)
        differ, made = differences(database), sections(database, by)
        return Report(store.text, **numbers, findings=differ, sections=made, states=states, unread=unread, lost=lost)
