"""A progress bar on standard error while training runs; none if that is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Told = Callable[[int, int], None]
"""Called with the number of rounds done, and of all rounds."""


@contextmanager
def shown(progress: bool | Told) -> Iterator[Told]:
    """Yield the function to call after each round: the caller's own, that of a bar, or none."""
    if callable(progress) or not progress or not sys.stderr.isatty():
        yield progress if callable(progress) else lambda _done, _total: None
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeRemainingColumn())
    # The bar redraws itself some times per second, however often it is told.
    with bars.Progress("training", *columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("training", total=None)
        yield lambda done, total: bar.update(line, completed=done, total=total)
