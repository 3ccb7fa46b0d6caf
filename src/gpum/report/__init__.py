"""Results of a fit: `diagnostics` as arrays, `findings` in words, `document` as an HTML page (in `page/`);
`labelling`, a page on which rows are labelled.
"""

from .document import render, write_report

__all__ = ["render", "write_report"]
