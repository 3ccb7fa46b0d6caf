"""The report of a fit as a page, under its public name; the app makes it."""

from .app.report import render, write_report

__all__ = ["render", "write_report"]
