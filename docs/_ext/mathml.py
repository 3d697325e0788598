"""Sphinx extension: formulas as MathML, written at build time.

Browsers draw MathML by themselves, so the pages carry no scripts for mathematics, load no fonts,
and ask nothing of any other host. ``latex2mathml`` translates; what it gets wrong is mended here.
"""

from __future__ import annotations

import contextlib
import re
import unicodedata
from typing import TYPE_CHECKING, Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

_UPRIGHT = re.compile(r"\\mathrm\{(\w+)\}")
_FUNCTION = re.compile(r"\\(log|ln|exp|sin|cos)(?:\s+(?=[A-Za-z])|(?=\\[A-Za-z]))")
_LETTER = re.compile(r"\\(?P<alphabet>mathcal|mathbb)(?:\{(?P<braced>[A-Z])\}|\s+(?P<bare>[A-Z]))")
_ALPHABETS = {
    "mathcal": ("MATHEMATICAL SCRIPT CAPITAL", "SCRIPT CAPITAL"),
    "mathbb": ("MATHEMATICAL DOUBLE-STRUCK CAPITAL", "DOUBLE-STRUCK CAPITAL"),
}
"""What Unicode calls the letters of other alphabets; the common ones have the shorter name."""
_MENDED = {
    "<mi>&#x0007E;</mi>": "<mo>\N{TILDE OPERATOR}</mo>",  # a letter would have no space around it
    r">\{</mo>": ">{</mo>",
    r">\}</mo>": ">}</mo>",
}
"""What the translator writes, and what it should."""
_PUNCTUATION = re.compile(r"[^\w\s(\[]+")


class Together(SphinxPostTransform):
    """Keeps a formula and the punctuation behind it on one line, where browsers would break."""

    default_priority = 900
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Put both into one element that is not broken."""
        for formula in list(self.document.findall(nodes.math)):
            parent, after = formula.parent, formula.next_node(descend=False, siblings=True)
            found = isinstance(after, nodes.Text) and _PUNCTUATION.match(after)
            if found:
                rest = nodes.Text(after[found.end() :])
                whole = nodes.inline("", "", classes=["together"])
                parent.replace(after, rest)
                parent.replace(formula, whole)
                whole.extend([formula, nodes.Text(found[0])])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer, under the name ``mathml``, and the transform."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.add_post_transform(Together)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def mathml(tex: str, display: str) -> str:
    """Return one formula as MathML; ``display`` is ``inline`` or ``block``."""
    tex = _UPRIGHT.sub(r"\\text{\1}", tex)
    tex = _LETTER.sub(_letter, tex)
    # A function and its argument without brackets would stand too close.
    tex = _FUNCTION.sub(r"\\\1\\, ", tex)
    made = convert(tex, display=display)
    for wrong, right in _MENDED.items():
        made = made.replace(wrong, right)
    return made


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def _letter(found: re.Match[str]) -> str:
    """A letter as the character that Unicode has for it: browsers ignore the old attribute."""
    for alphabet in _ALPHABETS[found["alphabet"]]:
        with contextlib.suppress(KeyError):
            return unicodedata.lookup(f"{alphabet} {found['braced'] or found['bare']}")
    return found[0]
