"""All properties by name."""

from tests.formal import (
    admission,
    axi,
    axi_progress,
    checker,
    control,
    fetcher,
    guard,
    issuer,
    link,
    reducer,
    sender,
    session,
    streams,
    switch,
    tracker,
    vc_link,
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
    admission,
    axi,
    axi_progress,
    checker,
    fetcher,
    control,
)
PROPERTIES = {claim.name: claim for module in MODULES for claim in module.PROPERTIES}
