"""Depths and codes of the model are those of the hardware's blocks."""

import importlib
import re
from pathlib import Path

import pytest

import multitree.sim.exact.library as library
from multitree.hw.link.link import Kind
from multitree.nic.driver.config import LIMITS
from multitree.sim.exact.tables import NONE, ROW, TRANSFER

FOLDER = Path(library.__file__).parent
CONSTANTS = [
    ("around.h", "JOB_QUEUE_DEPTH", "nic.driver.config", "JOB_QUEUE_DEPTH"),
    ("chunk_source.h", "QUEUED_JOBS", "nic.forward.chunk_source", "_QUEUED_JOBS"),
    ("forward.h", "STALE_FLITS", "nic.forward.chunk_reader", "_STALE_FLITS"),
    ("forward.h", "FOUND_CHUNKS", "nic.forward.chunk_reader", "_FOUND_CHUNKS"),
    ("forwarding_receiver.h", "QUEUED_MESSAGES", "nic.reduce.forwarding_reducer", "_MESSAGES"),
    ("forwarding_receiver.h", "AHEAD_FLITS", "hw.codes", "AHEAD_FLITS"),
    ("forwarding_receiver.h", "MESSAGES", "nic.receive.forwarding_header_check", "_MESSAGES"),
    ("pipelined_fetcher.h", "ROWS", "nic.send.pipelined_fetcher", "_ROWS"),
    ("sequencer.h", "LATE", "nic.reduce.sequencer", "_LATE"),
    ("shared_lane.h", "AHEAD_FLITS", "hw.codes", "AHEAD_FLITS"),
]


def constant(file, name):
    """What a header says a constant is."""
    return int(re.search(rf"\b{name} = (-?\d+)", (FOLDER / file).read_text())[1])


@pytest.mark.every_set
@pytest.mark.parametrize(("file", "name", "module", "attribute"), CONSTANTS)
def test_queues_are_as_deep_as_the_hardware_s(file, name, module, attribute):
    block = importlib.import_module(f"multitree.{module}")
    assert constant(file, name) == getattr(block, attribute)


def test_codes_and_limits_are_the_hardware_s():
    for kind in (Kind.HEAD, Kind.BODY, Kind.TAIL, Kind.SINGLE):
        assert constant("link.h", kind.name) == kind.value
    assert constant("tables.h", "MOST_PORTS") == LIMITS["num_ports"][1]
    assert constant("tables.h", "NONE") == NONE


STRUCTS = [("Row", ROW.names), ("Transfer", TRANSFER.names), ("LinkOf", library.LINK.names)]


@pytest.mark.every_set
@pytest.mark.parametrize(("struct", "names"), [*STRUCTS, ("Parameters", library.PARAMETERS)])
def test_structs_have_the_fields_of_the_arrays(struct, names):
    text = (FOLDER / "tables.h").read_text()
    body = re.search(rf"struct {struct} {{(.*?)}};", text, re.DOTALL)[1]
    fields = re.findall(r"int(?:32|64)_t ([\w, ]+);", re.sub(r"//.*", "", body))
    assert tuple(name.strip() for line in fields for name in line.split(",")) == tuple(names)
