"""The entry point: builds the commands, and turns every failure into one line and an exit code.

Exit codes: 0 success; 1 something unexpected (``--debug`` shows where); 2 bad usage; 10 and above,
one per kind of error in ``incrowd.errors``, each with a page in ``docs/errors``; 130 interrupted.
Standard output carries results only, so that a pipe never reads an error.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from incrowd._version import __version__
from incrowd.errors import FileUnreadable, IncrowdError

__all__ = ["build", "main"]

_DEBUG = "--debug"
_INTERRUPTED = 130
_EPILOG = "Every error has its own exit code, explained in docs/errors."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = _DEBUG in words
    words = [word for word in words if word != _DEBUG]
    _tolerate_narrow_encodings()
    try:
        code = typer.main.get_command(build())(
            args=words, prog_name="incrowd", standalone_mode=False
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        _discard_output()
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        if debug:
            raise
        if _is_output(error):
            _discard_output()
        line, code = _explained(error)
        if line:
            with contextlib.suppress(BrokenPipeError):
                sys.stderr.write(f"error: {' '.join(line.split())}\n")
        return code


def build() -> typer.Typer:
    """All commands; imported here, so that importing the package stays cheap."""
    from incrowd.cli.account import account_app, calibrate_app
    from incrowd.cli.config import app as config
    from incrowd.cli.curator import app as curator
    from incrowd.cli.device import app as device
    from incrowd.cli.graph import app as graph
    from incrowd.cli.hub import hub
    from incrowd.cli.keys import app as keys
    from incrowd.cli.owner import ledger
    from incrowd.cli.query import query_command
    from incrowd.cli.run import run_command
    from incrowd.cli.shuffle_order import shuffle_order_command

    app = typer.Typer(
        name="incrowd", no_args_is_help=True, epilog=_EPILOG, pretty_exceptions_enable=False
    )
    app.callback()(_root)
    app.command("run")(run_command())
    app.command("query")(query_command())
    app.command("shuffle-order")(shuffle_order_command())
    app.add_typer(account_app(), name="account")
    app.add_typer(calibrate_app(), name="calibrate")
    app.add_typer(config, name="config")
    app.add_typer(graph, name="graph")
    app.command("hub")(hub)
    app.add_typer(device, name="device")
    app.command("ledger")(ledger)
    app.add_typer(curator, name="curator")
    app.add_typer(keys, name="keys")
    return app


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"incrowd {__version__}\n")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
    debug: Annotated[
        bool, typer.Option(_DEBUG, help="Show where an error comes from; allowed anywhere.")
    ] = False,
) -> None:
    """Answer a question together without anyone you must trust."""
    # Both options have done their work by the time this is called.
    del version, debug


def _explained(error: Exception) -> tuple[str, int]:
    """The line to print and the code to exit with."""
    if isinstance(error, IncrowdError):
        return str(error), error.exit_code
    if isinstance(error, typer.TyperException):
        # Bad usage. A group without a command has already printed its help: nothing to add.
        context = getattr(error, "ctx", None)
        message = error.format_message().replace("Value error, ", "")  # typer's own words
        hint = f" (see '{context.command_path} --help')" if context and message else ""
        return message + hint, error.exit_code
    if _is_output(error):
        reason = getattr(error, "strerror", None) or error
        return f"cannot write the output: {reason}", FileUnreadable.exit_code
    return f"{type(error).__name__}: {error} (unexpected: {_DEBUG} shows where)", 1


def _is_output(error: Exception) -> bool:
    """Whether a result could not be written: what fails on a named file names that file."""
    return isinstance(error, OSError) and error.filename is None and error.errno is not None


def _discard_output() -> None:
    """Nobody can be told what is left of the output, also not at the flush when Python exits."""
    with contextlib.suppress(OSError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tolerate_narrow_encodings() -> None:
    """Print a question mark rather than fail where a terminal has no ε."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
