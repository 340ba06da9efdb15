"""The few messages of XLA's profiler (xplane.proto, a public format) that are read and written: their field numbers."""

from __future__ import annotations


class XSpace:
    """the profiler's XSpace"""

    planes = 1


class XPlane:
    """the profiler's XPlane"""

    id = 1
    name = 2
    lines = 3
    event_metadata = 4
    stat_metadata = 5


class XLine:
    """the profiler's XLine"""

    id = 1
    name = 2
    timestamp_ns = 3
    events = 4
    display_name = 11


class XEvent:
    """the profiler's XEvent"""

    metadata_id = 1
    offset_ps = 2
    duration_ps = 3
    stats = 4


class XStat:
    """the profiler's XStat"""

    metadata_id = 1
    uint64_value = 3
    int64_value = 4
    str_value = 5
    ref_value = 7


class Metadata:
    """the profiler's XEventMetadata and XStatMetadata share this; only events have a `display_name`."""

    id = 1
    name = 2
    display_name = 4


class MapEntry:
    """An entry of XPlane's maps."""

    key = 1
    value = 2
