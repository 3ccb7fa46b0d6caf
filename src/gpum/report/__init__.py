"""What a fit says of itself: `diagnostics` as arrays, `findings` in words, `document` as an HTML page (in `page/`);
`labelling`, a page on which rows get labels.
"""

from .document import render, write_report

__all__ = ["render", "write_report"]
