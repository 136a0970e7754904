"""The page that plays a recording of a schedule: columns, compressed, in one file."""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.host.view.layout import Layout, lanes_of
from multitree.host.view.placement import layout_of
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import link_limits
from multitree.sim.timing.trace import Trace
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.columns import ROW_FIELDS
from multitree.topology.schedules.schedule import Schedule

__all__ = ["MOST_MESSAGES", "Recording", "check_playable", "packed", "page_of"]

MOST_MESSAGES = 1 << 22
"""Messages of all waves that a browser draws smoothly, and holds."""

UNITS = 1000
"""Parts of a unit of a drawing that places are rounded to."""

Columns = dict[str, npt.NDArray[Any]]


def check_playable(schedule: Schedule) -> None:
    """Raise a ScheduleError where messages of all waves are more than a page plays."""
    count = schedule.num_waves * schedule.num_transfers
    if count > MOST_MESSAGES:
        raise ScheduleError(
            f"{schedule.topology.name}: messages of all waves must be at most {MOST_MESSAGES} in a "
            f"page, not {count}"
        )


@dataclass(frozen=True, eq=False)
class Recording:
    """A schedule, and when its messages went if an engine has run it."""

    schedule: Schedule
    trace: Trace | None = None  # without it, each message takes one step
    size_bytes: int | None = None  # of one rank's buffer, with a trace
    link_model: LinkModel | None = None

    def __post_init__(self) -> None:
        """Refuse what no browser would play."""
        check_playable(self.schedule)

    @property
    def num_messages(self) -> int:
        """Messages of all waves."""
        return self.schedule.num_waves * self.schedule.num_transfers

    @property
    def duration(self) -> int:
        """Steps of all waves, or cycles until the last rank is done."""
        schedule = self.schedule
        if self.trace is None:
            return schedule.num_steps + (schedule.num_waves - 1) * schedule.period
        return max(int(self.trace.done.max()), int(self.trace.arrived.max(initial=0)))

    def header(self) -> dict[str, Any]:
        """What is said in words: names and counts."""
        schedule, topology, trace = self.schedule, self.schedule.topology, self.trace
        model = self.link_model or LinkModel()
        return {
            "topology": topology.name,
            "algorithm": schedule.algorithm,
            "collective": schedule.collective,
            "root": schedule.root,
            "num_ranks": topology.num_ranks,
            "num_switches": topology.num_switches,
            "num_links": topology.num_links,
            "names": topology.names,
            "num_flows": schedule.num_flows,
            "num_steps": schedule.num_steps,
            "num_waves": schedule.num_waves,
            "period": schedule.period,
            "schedule_hash": schedule.hash,
            "duration": self.duration,
            "engine": trace and trace.engine,
            "cycles": trace and trace.cycles,
            "link_utilization": trace and trace.link_utilization,
            "size_bytes": self.size_bytes,
            "dependency": trace and model.dependency,
            "clock_ghz": trace and model.clock_ghz,
            "limits": [*map(str, link_limits(topology, model))] if trace else [],
        }

    def columns(self) -> Columns:
        """All numbers: the drawing, links, flows, rows, and cycles where there is a trace."""
        topology = self.schedule.topology
        return (
            _drawn(topology, layout_of(topology))
            | self._link_columns(topology)
            | self._row_columns()
            | self._times()
        )

    def _link_columns(self, topology: Topology) -> Columns:
        model = self.link_model or LinkModel()
        speed = topology.bandwidth_gbytes_per_s
        # Flits in a million cycles: a link slower than the interface takes fewer.
        rate = np.minimum(speed / model.link_gbytes_per_s, 1.0)
        return {
            "link_src": topology.links[:, 0],
            "link_dst": topology.links[:, 1],
            "link_port": topology.link_ports,
            "link_lane": np.rint(2 * lanes_of(topology)).astype(np.int64),
            "link_mbytes_per_s": np.rint(1000 * speed).astype(np.int64),
            "link_rate": np.maximum(np.rint(1e6 * rate), 1).astype(np.int64),
        }

    def _row_columns(self) -> Columns:
        schedule = self.schedule
        rows = {f"row_{field}": getattr(schedule, field) for field in ROW_FIELDS}
        return rows | {
            "row_hops": np.diff(schedule.route_offsets),
            "route_links": schedule.route_links,
            "flow_root": schedule.flow_roots,
        }

    def _times(self) -> Columns:
        trace = self.trace
        if trace is None:
            return {}
        # From wave to wave cycles go up by nearly the same everywhere.
        taken = trace.arrived - trace.sent
        return {
            "sent": np.diff(trace.sent, axis=0, prepend=0),
            "taken": np.diff(taken, axis=0, prepend=0),
            "done": trace.done,
            "flow_flits": np.diff(self.schedule.chunks(trace.num_flits)),
        }


def _drawn(topology: Topology, layout: Layout) -> Columns:
    """The drawing in whole parts of a unit."""
    curves = [layout.curves.get(link) for link in range(topology.num_links)]
    points = [point for curve in curves if curve is not None for point in curve.points]
    rounded = {
        "node_x": layout.x,
        "node_y": layout.y,
        "node_radius": np.array([layout.radius]),
        "curve_x": np.array([x for x, _ in points]),
        "curve_y": np.array([y for _, y in points]),
    }
    return {name: np.rint(UNITS * values).astype(np.int64) for name, values in rounded.items()} | {
        "link_corners": np.array([0 if curve is None else len(curve.points) for curve in curves]),
        "link_is_stub": np.array([int(curve is not None and curve.is_stub) for curve in curves]),
    }


IntArray = npt.NDArray[np.int64]


def packed(header: Mapping[str, Any], columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """A JSON header and integer columns of less than 2^52 in magnitude, compressed by zlib.

    Inside: the header's length in 4 bytes, least significant first; the header, with name, length
    and planes of each column; the planes. A column holds differences d of entries, as 2d or
    -2d - 1; plane p has byte p of each.
    """
    # Rows and cycles go up evenly: differences are few and small, and deflate finds them again.
    planes = {name: _planes(np.asarray(values).ravel()) for name, values in columns.items()}
    listed = [[name, int(np.size(columns[name])), len(each)] for name, each in planes.items()]
    text = json.dumps({**header, "columns": listed}, allow_nan=False, separators=(",", ":"))
    start = text.encode()
    pieces = [len(start).to_bytes(4, "little"), start]
    pieces += (plane for each in planes.values() for plane in each)
    return zlib.compress(b"".join(pieces), 9)


def _planes(values: npt.NDArray[Any]) -> list[bytes]:
    """The bytes of a column's differences, those of equal weight together."""
    difference = np.diff(values.astype(np.int64), prepend=0)
    folded = np.where(difference >= 0, 2 * difference, -2 * difference - 1)
    count = -(-int(folded.max(initial=0)).bit_length() // 8)
    return [(folded >> 8 * place & 255).astype(np.uint8).tobytes() for place in range(count)]


FOLDER = Path(__file__).with_name("page")
SCRIPTS = ("data", "moment", "paths", "names", "drawing", "panel", "player", "controls")
"""In the order in which they stand in the page."""


def page_of(recording: Recording) -> str:
    """An HTML document of a recording; its policy lets the browser load nothing."""
    schedule = recording.schedule
    title = f"{schedule.collective} by {schedule.algorithm} on {schedule.topology.name}"
    style = _read("page.css")
    scripts = "\n".join(_read(f"{name}.js") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{scripts}}})();\n'
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_fingerprint(style)}'",
            f"script-src '{_fingerprint(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    data = base64.b64encode(packed(recording.header(), recording.columns())).decode()
    parts = {"TITLE": escape(title), "POLICY": policy, "STYLE": style, "SCRIPT": script}
    parts["DATA"] = data
    # In one pass: what has been put in is not searched for marks again.
    return re.sub(r"@([A-Z]+)@", lambda mark: parts[mark[1]], _read("page.html"))


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _fingerprint(text: str) -> str:
    """What a policy names an inline style or script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
