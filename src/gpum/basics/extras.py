"""Packages that only some parts of the library need: imported on first use, or a sentence that says how to get them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .checks import GpumError

# The extra of pyproject.toml that brings a package.
EXTRAS = {
    "PIL": "app",
    "contourpy": "app",
    "dask": "dask",
    "distributed": "dask",
    "h5py": "cells",
    "matplotlib": "plots",
    "plotly": "app",
    "pooch": "app",
    "openpyxl": "app",
    "pyarrow": "app",
    "rich": "app",
    "typer": "app",
}


def needs(module: str, what: str) -> Any:
    """A module of an optional package; where it is missing, an error names the extra that brings it.

    `what` is what needs it, as in "the report".
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:  # the package is there, and broken
            raise
        raise GpumError(
            f"{what} needs {package}, which is not installed; install it with pip install 'gpum[{EXTRAS[package]}]'"
        ) from None
