"""The report of a fit: `findings` in words, `document` as an HTML page (in `page/`)."""

from .document import render, write_report

__all__ = ["render", "write_report"]
