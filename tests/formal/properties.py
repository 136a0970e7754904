"""All properties by name."""

from tests.formal import (
    admission,
    checker,
    control,
    fetcher,
    guard,
    issuer,
    link,
    reducer,
    sender,
    streams,
    tracker,
)

__all__ = ["PROPERTIES"]

MODULES = (
    streams,
    link,
    guard,
    reducer,
    issuer,
    sender,
    tracker,
    admission,
    checker,
    fetcher,
    control,
)
PROPERTIES = {claim.name: claim for module in MODULES for claim in module.PROPERTIES}
