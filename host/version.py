"""The version of MultiTree that is installed."""

import importlib.metadata

__all__ = ["project_version"]


def project_version() -> str:
    """Version of the installed package; ValueError if only its source is there."""
    try:
        return importlib.metadata.version("multitree")
    except importlib.metadata.PackageNotFoundError as error:
        raise ValueError(
            "MultiTree must be installed (pip install .) to know its version"
        ) from error
