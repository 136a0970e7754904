"""All properties by name."""

from tests.formal.control import checker, control, faults, memories, registers, rules, tracker
from tests.formal.hw import axi, axi_progress, link, session, streams, switch
from tests.formal.path import (
    chunk_source,
    fetcher,
    forward,
    forwarding_header_check,
    forwarding_reducer,
    framer,
    guard,
    head_reader,
    header_check,
    header_lookup,
    issuer,
    lane,
    reducer,
    reorder_buffer,
    sender,
    sequencer,
    sequencer_arrivals,
    shared_header_check,
)

__all__ = ["PROPERTIES"]

MODULES = (
    streams,
    session,
    link,
    switch,
    guard,
    axi,
    axi_progress,
    reducer,
    issuer,
    sender,
    forward,
    chunk_source,
    forwarding_reducer,
    tracker,
    framer,
    header_check,
    head_reader,
    forwarding_header_check,
    header_lookup,
    sequencer,
    sequencer_arrivals,
    lane,
    reorder_buffer,
    shared_header_check,
    checker,
    fetcher,
    control,
    faults,
    memories,
    rules,
    registers,
)
PROPERTIES = {claim.name: claim for module in MODULES for claim in module.PROPERTIES}
