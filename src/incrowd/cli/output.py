"""Output of commands: a readable table for people, JSON alone for programs.

A command hands over its payload once, as plain data with full doubles, together with a function
that draws the same payload as tables. ``--format json`` prints the payload and nothing else on
standard output; notes and progress always go to standard error. JSON has no infinity, so a bound
that does not exist is ``null``.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from incrowd.errors import FileNotWritable

if TYPE_CHECKING:
    from rich.console import Console

    from incrowd.survey.pipeline import Progress

_PIPE_COLUMNS = 100
_SLOW = 2.0
"""Seconds after which a stage names itself."""


class Format(StrEnum):
    """Form of a command's result."""

    table = "table"
    json = "json"


FormatOption = Annotated[
    Format, typer.Option(help="Print tables for people, or JSON for programs.")
]


def emit(payload: dict[str, Any], render: Callable[[Console], None], format: Format) -> None:
    """Print ``payload`` as JSON, or let ``render`` draw it."""
    if format is Format.json:
        json.dump(_plain(payload), sys.stdout, indent=2, allow_nan=False)
        sys.stdout.write("\n")
        return
    from rich.console import Console

    # A pipe has no width; rich would fold tables at 80 columns, which was not asked for.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPE_COLUMNS
    render(Console(width=width, highlight=False, soft_wrap=False))
    sys.stdout.flush()


def write_text(
    path: Path,
    text: str,
    what: str,
    *,
    replace: bool = False,
    how: str = "name another file with --output, or remove it first",
) -> None:
    """Write a file that holds ``what``; one that is there is kept, and ``how`` says what to do."""
    from incrowd.report.html import require_writable

    if not path.exists():
        require_writable(path, what)
    try:
        with path.open("w" if replace else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise FileNotWritable(f"{path} exists already: {how}") from None
    except OSError as error:
        raise FileNotWritable(f"{path}: cannot write the {what}: {error.strerror}") from error


def note(text: str) -> None:
    """Write one line on standard error, beside the result."""
    tell(f"note: {text}")


def tell(line: str) -> None:
    """Write a line on standard error; on a terminal, one that is too long breaks between words."""
    if sys.stderr.isatty():
        columns = shutil.get_terminal_size().columns
        line = textwrap.fill(line, columns, break_long_words=False, break_on_hyphens=False)
    sys.stderr.write(f"{line}\n")


@contextmanager
def progress() -> Iterator[Progress]:
    """Show the stage on standard error: on a terminal as a bar, else one line for each slow one."""
    if not sys.stderr.isatty():
        with _slow_stages() as say:
            yield say
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        bars.TaskProgressColumn(),
    )
    # The bar redraws itself some times per second, however often it is told.
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        line = shown.add_task("starting", total=None)

        def say(stage: str, done: int = 0, total: int = 0) -> None:
            # A bar without a total moves to and fro.
            counted = f"{stage} {done:,} of {total:,}" if total else stage
            shown.update(line, description=counted, completed=done, total=total or None)

        yield say


@contextmanager
def _slow_stages() -> Iterator[Progress]:
    """Write a line about each stage that is not over after two seconds."""
    waiting: threading.Timer | None = None
    named = ""

    def say(stage: str, done: int = 0, total: int = 0) -> None:
        nonlocal waiting, named
        del done, total
        if stage == named:
            return
        if waiting is not None:
            waiting.cancel()
        named, waiting = stage, threading.Timer(_SLOW, sys.stderr.write, (f"{stage} …\n",))
        waiting.daemon = True
        waiting.start()

    try:
        yield say
    finally:
        if waiting is not None:
            waiting.cancel()


def _plain(value: Any) -> Any:
    """Return the value in types that JSON has."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
