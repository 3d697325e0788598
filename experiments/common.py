"""What experiments share: markdown tables, SVG figures for light and dark pages, and a runner.

A figure is drawn in the colours of a light page. Its file carries a style sheet that exchanges them
on a dark one, background included, so that it is legible wherever it is shown; a viewer that knows
no style sheets shows the light one. Nothing in a file depends on the date or on random ids. Nothing
global is touched: no pyplot, and settings only within a context.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLUE",
    "GREEN",
    "INK",
    "LINE",
    "MUTED",
    "ORANGE",
    "PAPER",
    "PURPLE",
    "Drawing",
    "Experiment",
    "Table",
    "canvas",
    "plain_ticks",
]

FIGURES = Path(__file__).resolve().parent.parent / "docs" / "figures"

# Blue and orange stay apart for every kind of colour vision; no figure tells by colour alone.
PAPER, INK, MUTED, LINE = "#ffffff", "#1d2129", "#5d6470", "#e4e2dd"
BLUE, ORANGE, PURPLE, GREEN = "#1f5fbf", "#c2410c", "#6b4fa0", "#1d7a4c"
_DARK = {
    PAPER: "#14171c",
    INK: "#e8e9ec",
    MUTED: "#a0a7b4",
    LINE: "#333943",
    BLUE: "#7fb0ff",
    ORANGE: "#ff9d6b",
    PURPLE: "#c3a6ff",
    GREEN: "#6cd49d",
}

Size = TypeVar("Size")


@dataclass(frozen=True)
class Table:
    """A heading, what the columns mean, and rows of text."""

    title: str
    text: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def render(self, source: str) -> str:
        """The table as a markdown page; all columns but the first are numbers."""
        head = [_row(self.columns), _row([":--", *["--:"] * (len(self.columns) - 1)])]
        lines = [f"# {self.title}", "", self.text, "", *head, *map(_row, self.rows)]
        return "\n".join([*lines, "", f"Written by `python -m {source}`.", ""])


@dataclass(frozen=True)
class Drawing:
    """A finished figure, as the text of an SVG file."""

    svg: str

    def render(self, source: str) -> str:
        """The file, which says where it comes from."""
        head, rest = self.svg.split("<svg ", 1)
        return f"{head}<!-- Written by python -m {source} -->\n<svg {rest}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


@dataclass(frozen=True)
class Experiment(Generic[Size]):
    """Pieces by the name of the file that each one writes, at full size and at a quick one."""

    module: str
    pieces: Mapping[str, Callable[[Size], Table | Drawing]]
    full: Size
    quick: Size

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Make all pieces: progress goes to standard error, what was written to standard output."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}")
        parser.add_argument(
            "--out", type=Path, help=f"where to write (default: docs/{FIGURES.name})"
        )
        parser.add_argument(
            "--quick", action="store_true", help="a small part, for tests; needs --out"
        )
        options = parser.parse_args(arguments)
        if options.quick and options.out is None:
            parser.error("--quick would replace full results by small ones: name another --out")
        directory: Path = options.out or FIGURES
        directory.mkdir(parents=True, exist_ok=True)
        size = self.quick if options.quick else self.full
        for name, make in self.pieces.items():
            start = time.perf_counter()
            print(f"{name} …", end=" ", file=sys.stderr, flush=True)
            content = make(size).render(self.module)
            (directory / name).write_text(content, encoding="utf-8", newline="\n")
            print(f"{time.perf_counter() - start:.1f} s", file=sys.stderr)
            print(directory / name)
        return 0


class Canvas:
    """A figure with its axes; ``drawing`` is what they look like when all is drawn."""

    def __init__(self, figure: Figure, axes: Sequence[Axes]) -> None:
        self.figure = figure
        self.axes = axes

    def heading(self, text: str) -> None:
        """What the figure says, above everything, at the left edge."""
        self.figure.suptitle(text, x=0.012, ha="left", color=INK, fontsize=13, weight="bold")

    def drawing(self) -> Drawing:
        """The SVG text, with the colours for dark pages."""
        buffer = io.StringIO()
        self.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        exchanges = "".join(
            f'    [style*="{what}: {light}"] {{ {what}: {dark} !important }}\n'
            for light, dark in _DARK.items()
            for what in ("fill", "stroke")
        )
        style = f"<style>\n  @media (prefers-color-scheme: dark) {{\n{exchanges}  }}\n </style>\n"
        head, rest = buffer.getvalue().split("<defs>", 1)
        # matplotlib pads some lines with blanks.
        lines = f"{head}{style} <defs>{rest}".splitlines()
        return Drawing("\n".join(line.rstrip() for line in lines) + "\n")


@contextmanager
def canvas(width: float, height: float, panels: int = 1) -> Iterator[Canvas]:
    """Panels side by side with one vertical axis, on paper of this size in inches."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    settings: Any = {
        "svg.hashsalt": "incrowd",
        "svg.fonttype": "path",
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "text.color": INK,
        "figure.facecolor": PAPER,
        "axes.facecolor": PAPER,
        "axes.axisbelow": True,
        "axes.edgecolor": LINE,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.labelcolor": MUTED,
        "axes.spines.left": False,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "grid.color": LINE,
        "grid.linewidth": 0.7,
        "lines.solid_capstyle": "round",
        "xtick.color": LINE,
        "xtick.labelcolor": MUTED,
        "xtick.minor.size": 0,
        "ytick.color": LINE,
        "ytick.labelcolor": MUTED,
        "ytick.major.size": 0,
        "ytick.minor.size": 0,
    }
    with mpl.rc_context(settings):
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08, wspace=0.03)
        figure = Figure(figsize=(width, height), layout=layout)
        axes = figure.subplots(1, panels, sharey=True, squeeze=False)
        yield Canvas(figure, list(axes[0]))


def plain_ticks(axis: Any, ticks: Sequence[float]) -> None:
    """Ticks at these places, written as people write numbers."""
    axis.set_ticks(ticks, [_plain(tick) for tick in ticks])
    axis.set_ticks([], minor=True)


def _plain(tick: float) -> str:
    if tick >= 1e9:
        return f"{tick / 1e9:g} billion"
    if tick >= 1e6:
        return f"{tick / 1e6:g} million"
    return f"{tick:,.0f}" if tick >= 1000 else f"{tick:g}"
