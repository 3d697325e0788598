"""A bar on standard error while training runs; silent when nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Told = Callable[[int, int], None]
"""Is told how many rounds are done, and of how many."""


@contextmanager
def shown(progress: bool | Told) -> Iterator[Told]:
    """What to tell after each round: the caller's own function, a bar, or nobody."""
    if callable(progress):
        yield progress
        return
    if not progress or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("training"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
    )
    # The bar redraws itself some times per second, however often it is told.
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("training", total=None)
        yield lambda done, total: bar.update(line, completed=done, total=total)
