"""The generated pieces of the errata: how to cite them, and their index.

Those of each page are in a module of its own, which registers them when it is imported here.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import errata_check_in  # noqa: F401
import errata_network  # noqa: F401
import errata_order  # noqa: F401
import errata_scrambler  # noqa: F401
import errata_token  # noqa: F401
from pieces import DOCS, PIECES, ROOT, piece, table

ERRATA = DOCS / "errata"
FIXED_HEADINGS = "Summary|What stands"
"""Headings of a page that are no claim."""


def citation(page: Path) -> str:
    """The version of a page and how it is cited."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    by, work, version = (
        re.findall(rf"^ *-? *{key}: \"?([^\"\n]+)", text, re.M)[0]
        for key in ("name", "title", "version")
    )
    title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    return (
        f"**Version** {version}, that of the software and of its tests.\n\n"
        f"**Cite as** {by}, “{title}”, in *{work}*, version {version}. "
        "The entries of the software and of the papers are in `CITATION.cff`."
    )


PIECES.update(
    {f"errata-citation-{page.stem}": partial(citation, page) for page in ERRATA.glob("*.md")}
)


@piece
def errata_index() -> str:
    """The pages, with the number of statements that each one looks at."""
    rows = []
    for page in sorted(ERRATA.glob("*.md")):
        if page.name == "index.md":
            continue
        text = page.read_text(encoding="utf-8")
        title = text.partition("\n")[0].removeprefix("# Errata: ")
        (paper,) = re.findall(r"^\*\*Paper\*\* (.+?)\.$", text, re.M | re.S)
        claims = re.findall(rf"^## (?!{FIXED_HEADINGS})", text, re.M)
        rows.append([f"[{title}]({page.name})", " ".join(paper.split()), str(len(claims))])
    return table(["page", "paper", "statements"], rows)
