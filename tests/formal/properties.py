"""All properties by name."""

from tests.formal.control import checker, control, faults, memories, registers, rules, tracker
from tests.formal.hw import axi, axi_progress, link, session, streams, switch, vc_link
from tests.formal.path import (
    admission,
    collector,
    collector_arrivals,
    fetcher,
    framer,
    guard,
    issuer,
    lane,
    reception,
    reducer,
    sender,
    shared_admission,
    staging,
)

__all__ = ["PROPERTIES"]

MODULES = (
    streams,
    session,
    link,
    vc_link,
    switch,
    guard,
    axi,
    axi_progress,
    reducer,
    issuer,
    sender,
    tracker,
    framer,
    admission,
    reception,
    collector,
    collector_arrivals,
    lane,
    staging,
    shared_admission,
    checker,
    fetcher,
    control,
    faults,
    memories,
    rules,
    registers,
)
PROPERTIES = {claim.name: claim for module in MODULES for claim in module.PROPERTIES}
