"""What the documentation needs beyond Markdown: formulas as MathML, written at build time.

Browsers draw MathML by themselves, so the pages carry no scripts for mathematics, load no fonts,
and ask nothing of any other host. ``pymdownx.arithmatex`` marks the formulas; ``latex2mathml``
translates them. The same is done to the table of contents, which repeats headings.
"""

from __future__ import annotations

import contextlib
import re
import unicodedata
from html import unescape
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<kind>[(\[])(?P<tex>.*?)\\[)\]]</(?P=tag)>', re.S
)
_BARE = re.compile(r"\\\((?P<tex>.*?)\\\)", re.S)
_UPRIGHT = re.compile(r"\\mathrm\{(\w+)\}")
_FUNCTION = re.compile(r"\\(log|ln|exp|sin|cos)(?:\s+(?=[A-Za-z])|(?=\\[A-Za-z]))")
_LETTER = re.compile(r"\\(?P<alphabet>mathcal|mathbb)(?:\{(?P<braced>[A-Z])\}|\s+(?P<bare>[A-Z]))")
_ALPHABETS = {
    "mathcal": ("MATHEMATICAL SCRIPT CAPITAL", "SCRIPT CAPITAL"),
    "mathbb": ("MATHEMATICAL DOUBLE-STRUCK CAPITAL", "DOUBLE-STRUCK CAPITAL"),
}
"""What Unicode calls the letters of other alphabets; the common ones have the shorter name."""


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Replace every marked formula of a page."""
    waiting = list(page.toc.items)
    while waiting:
        entry = waiting.pop()
        entry.title = _BARE.sub(lambda found: mathml(found["tex"], "inline"), entry.title)
        waiting.extend(entry.children)
    return _FORMULA.sub(
        lambda found: mathml(found["tex"], "block" if found["kind"] == "[" else "inline"), html
    )


def mathml(tex: str, display: str) -> str:
    """One formula, which may hold HTML entities."""
    tex = _UPRIGHT.sub(r"\\text{\1}", unescape(tex))
    tex = _LETTER.sub(_letter, tex)
    # A function and its argument without brackets would stand too close.
    tex = _FUNCTION.sub(r"\\\1\\, ", tex)
    # The translator takes ~ for a letter, which would put no space around it.
    return convert(tex, display=display).replace(
        "<mi>&#x0007E;</mi>", "<mo>\N{TILDE OPERATOR}</mo>"
    )


def _letter(found: re.Match[str]) -> str:
    """A letter as the character that Unicode has for it: browsers ignore the old attribute."""
    for alphabet in _ALPHABETS[found["alphabet"]]:
        with contextlib.suppress(KeyError):
            return unicodedata.lookup(f"{alphabet} {found['braced'] or found['bare']}")
    return found[0]
