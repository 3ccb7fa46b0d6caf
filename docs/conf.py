"""How Sphinx builds these pages: `make docs`. With GPUM_GALLERY=1 all examples are run too (minutes).

Those on real data are run where GPUM_DATA names its folder.
"""

import logging
import os
import sys
from pathlib import Path

import gpum

HERE = Path(__file__).parent
RUN = os.environ.get("GPUM_GALLERY") == "1"
# The tutorial is always run, since its pictures are what it is about; two of the others need real data.
WITH_DATA = r"\.py$" if os.environ.get("GPUM_DATA") else r"plot_(?!wifi|image_pose)\w+\.py$"
RUNS = WITH_DATA if RUN else r"plot_tutorial\.py$"
sys.path.insert(0, str(HERE / "_extensions"))
logging.getLogger("jax").setLevel(logging.WARNING)  # Sphinx would print its progress messages
for name in ("diagnostics", "model_io", "spectral"):  # autodoc imports modules by the names that users know them by
    sys.modules[f"gpum.{name}"] = getattr(gpum, name)

project = "GPUM"
author = "the GPUM developers"
version = release = gpum.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "plain_docstrings",
    "mathml",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
highlight_language = "text"

myst_enable_extensions = ["dollarmath", "substitution"]
myst_heading_anchors = 3
# The picture of `gpum demo`, where somebody has put it.
DEMO = "![A Swiss roll with 24 labels, the learned chart, predictions and errors](_static/demo.png)"
myst_substitutions = {"demo": DEMO if (HERE / "_static" / "demo.png").exists() else ""}

autodoc_typehints = "none"
autosummary_generate = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": RUNS,
    "ignore_pattern": r"(^|[/\\])(_|conftest|test_)\w*\.py$",
    "within_subsection_order": "gallery_order.place",
    "download_all_examples": False,
    "capture_repr": ("_repr_html_",),
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "furo"
html_title = "GPUM"
html_static_path = ["_static"]
html_css_files = ["page.css"] if RUN else ["page.css", "no_pictures.css"]
html_js_files = ["sort.js"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_math_renderer = "mathml"
