"""Sphinx extension: sections of docstrings (``Args:``, ``Returns:``, ``Raises:``) as fields.

The translation is napoleon's, but of attributes: it would take their text up to a colon for a type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sphinx.ext.napoleon import Config, GoogleDocstring

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_TEXT = {"attribute", "data", "property"}


def setup(app: Sphinx) -> dict[str, Any]:
    """Translate docstrings when autodoc has read them."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", _translate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _translate(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if what not in _TEXT:
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, obj, options).lines()
