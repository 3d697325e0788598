"""Settings of Sphinx for these pages. Nothing here names another host, and no page asks one.

``make docs`` builds them. Pages are MyST Markdown; the Python reference is made from docstrings,
and the gallery from the scripts of ``examples/gallery``, whose output is kept until they change.
"""

from __future__ import annotations

import sys
from pathlib import Path

import incrowd

DOCS = Path(__file__).resolve().parent
GALLERY = DOCS.parent / "examples" / "gallery"
sys.path.insert(0, str(DOCS / "_ext"))

project = "incrowd"
author = "The incrowd authors"
copyright = author
version = release = incrowd.__version__

extensions = [
    "docstrings",
    "mathml",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
highlight_language = "text"

# Markdown.
myst_enable_extensions = ["attrs_block", "colon_fence", "dollarmath"]
myst_heading_anchors = 4
myst_update_mathjax = False
html_math_renderer = "mathml"

# The Python reference.
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True

# The gallery.
sphinx_gallery_conf = {
    "examples_dirs": str(GALLERY),
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
}

# Looks.
html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["extra.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"tutorial": []}
html_theme_options = {
    "back_to_top_button": True,
    "footer_end": [],
    "footer_start": ["copyright"],
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
}
copybutton_prompt_text = "$ "
