"""Draws the pictures of pages whose code draws one: `python tests/page_pictures.py [PAGE...]`, such as dates.md."""

import os
import sys
import tempfile

import matplotlib.pyplot as plt

from test_pages import DOCS, follow

PAGES = (
    "known_surfaces.md", "optimisation.md", "dates.md", "positive.md", "building_blocks.md", "kernels_elsewhere.md"
)  # fmt: skip
AFTER = {"kernels_elsewhere.md": "building_blocks.md"}  # whose names it uses


def main(pages):
    """The last figure of each page becomes docs/_static/PAGE.png."""
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            plt.switch_backend("agg")
            follow(page, compare=True, names=follow(AFTER[page], compare=True) if page in AFTER else None)
            plt.gcf().savefig(DOCS / "_static" / page.replace(".md", ".png"), dpi=110)
            plt.close("all")
            os.chdir(DOCS)


if __name__ == "__main__":
    main(sys.argv[1:] or PAGES)
