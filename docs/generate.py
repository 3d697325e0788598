"""Writes every generated piece of the README and of the documentation, from the real software.

    python docs/generate.py            write all pieces (``make docs-figures``)
    python docs/generate.py --check    fail when a piece is stale

A page marks a piece with two comments, ``begin: NAME (make docs-figures)`` and ``end: NAME``; what
stands between them is replaced. A name is

* one of ``pieces.COMMANDS``: the command and what it prints;
* a function of ``pieces``, ``live_pieces``, ``architecture_pieces`` or ``errata_pieces`` marked
  ``@piece``, with dashes: what it returns;
* ``table-X``: the table of ``docs/figures/X.md``, which ``make experiments`` writes;
* ``output-X``: what the Python block above it prints.

No result is typed by hand, and every bound is rounded up by the code that prints it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import architecture_pieces  # noqa: F401  its pieces register themselves
import errata_pieces  # noqa: F401
import live_pieces  # noqa: F401
from pieces import COMMANDS, DOCS, PIECES, ROOT, fenced, shown

FENCE = re.compile(r"^```python\n(?P<code>.*?)^```$", re.M | re.S)
MARKED = re.compile(
    r"(?P<begin><!-- begin: (?P<name>[\w-]+) \(make docs-figures\) -->\n)"
    r".*?(?P<end><!-- end: (?P=name) -->)",
    re.S,
)


class CannotBeMade(Exception):
    """A piece is unknown, or what it needs is missing."""


def output_above(text: str) -> str:
    """What the last Python block of a text prints, after the blocks before it."""
    namespace: dict[str, Any] = {}
    printed = io.StringIO()
    for block in FENCE.finditer(text):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block["code"], "<block>", "exec"), namespace)  # noqa: S102
    return fenced(printed.getvalue())


def result_table(name: str) -> str:
    """The table of one experiment, with its explanation, without its heading."""
    path = DOCS / "figures" / f"{name.replace('-', '_')}.md"
    if not path.exists():
        raise CannotBeMade(f"{path.relative_to(ROOT)} is missing: run 'make experiments' first")
    return path.read_text(encoding="utf-8").split("\n", 1)[1].strip()


def piece_of(name: str, before: str) -> str:
    """The text of one piece; ``before`` is what its page holds above it."""
    if name in COMMANDS:
        return shown(COMMANDS[name])
    if name.startswith("output-"):
        return output_above(before)
    if name.startswith("table-"):
        return result_table(name.removeprefix("table-"))
    if name not in PIECES:
        raise CannotBeMade(f"unknown piece {name!r}: add it to docs/pieces.py")
    return PIECES[name]()


def rewritten(text: str) -> str:
    """A page with all its pieces made anew."""
    if text.count("<!-- begin: ") != len(MARKED.findall(text)):
        raise CannotBeMade("a marked piece has no end, or not the end of its name")

    def renew(found: re.Match[str]) -> str:
        made = piece_of(found["name"], text[: found.start()])
        return f"{found['begin']}\n{made}\n\n{found['end']}"

    return MARKED.sub(renew, text)


def pages() -> list[Path]:
    """The README and every page, but for the results that experiments write."""
    return [
        ROOT / "README.md",
        *sorted(p for p in DOCS.rglob("*.md") if p.parent.name != "figures"),
    ]


def run(check: bool) -> int:
    """Write all pages, or say which are stale; a page that fails does not keep the others back."""
    failed = False
    with contextlib.chdir(ROOT):
        for path in pages():
            name, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
            try:
                fresh = rewritten(text)
            except CannotBeMade as error:
                print(f"{name}: {error}")
                failed = True
                continue
            if fresh == text:
                continue
            print(f"{name}: {'stale: run make docs-figures' if check else 'written'}")
            if check:
                failed = True
            else:
                path.write_text(fresh, encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="say which pages are stale instead")
    sys.exit(run(parser.parse_args().check))
