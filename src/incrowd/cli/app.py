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
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from incrowd._version import __version__
from incrowd.cli.lazy import Deferred, LazyGroup
from incrowd.cli.output import tell
from incrowd.errors import FileNotWritable, IncrowdError, PluginInvalid
from incrowd.extras import missing_extra
from incrowd.plugins import target
from incrowd.protocols.registry import PROTOCOLS

_DEBUG = "--debug"
_INTERRUPTED = 130
_EPILOG = "Every error has its own exit code, explained in docs/errors."
_COMMANDS = {
    "run": ("run:run_command()", "Ask everybody what a survey file asks, on this machine."),
    "init": ("init:init", "Write a survey file for a table of your own."),
    "hub": (
        "hub:hub",
        "Run a registry of keys and a mailbox of sealed cells; it can open none of them.",
    ),
    "ledger": (
        "owner:ledger",
        "List surveys that devices answered, reserved or declined; they may run meanwhile.",
    ),
    "account": ("account:account_app()", "State the guarantee of a protocol."),
    "calibrate": (
        "account:calibrate_app()",
        "Solve for one option, so that a guarantee is met.",
    ),
    "check": ("check:check", "Say what a survey would do and guarantee; run nothing."),
    "graph": ("graph:app", "Look at the graph of who can talk to whom."),
    "device": ("device:app", "Take part in surveys for the owners of devices."),
    "curator": ("curator:app", "Run surveys of your own over a network."),
    "keys": (
        "keys:app",
        "Make, show, replace and withdraw the keys of the parties of live surveys.",
    ),
}
"""Commands by name: the object in this package, or a call that makes it, and the help line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = _DEBUG in words
    words = [word for word in words if word != _DEBUG]
    _tolerate_narrow_encodings()
    try:
        code = build()(args=words, prog_name="incrowd", standalone_mode=False)
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
                tell(f"error: {' '.join(line.split())}")
        return code


def build() -> TyperGroup:
    """Return the root, which knows all commands by name and loads one when it is run."""
    app = typer.Typer(
        name="incrowd",
        cls=LazyGroup,
        no_args_is_help=True,
        epilog=_EPILOG,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    root = typer.main.get_command(app)
    assert isinstance(root, LazyGroup)  # noqa: S101 - typer's own types do not say so
    first, *rest = _COMMANDS.items()
    for name, (place, line) in (first, *_plugin_commands(), *rest):
        root.add_command(Deferred(name, line, partial(_made, place)))
    return root


def _plugin_commands() -> list[tuple[str, tuple[str, str]]]:
    """Own commands of protocols; those of a package that cannot be read are left out."""
    plugins = PROTOCOLS.built_in()
    with contextlib.suppress(PluginInvalid):  # which is said where its protocol is asked for
        plugins = PROTOCOLS.plugins()
    found = {name: made for each in plugins.values() for name, made in each.commands.items()}
    return [(name, found[name]) for name in sorted(found) if name not in _COMMANDS]


def _made(place: str) -> Any:
    if "." in place:
        return target(place)()
    found = target(f"incrowd.cli.{place.removesuffix('()')}")
    return found() if place.endswith("()") else found


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"incrowd {__version__}\n")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option(_DEBUG, help="Show where an error comes from; allowed anywhere.")
    ] = False,
) -> None:
    """Answer a question together without anyone you must trust."""
    # Both options have done their work by the time this is called.
    del version, debug


def _explained(error: Exception) -> tuple[str, int]:
    """Return the line to print and the exit code."""
    if isinstance(error, ModuleNotFoundError):
        # Commands import what they need when they are run, and all of them are told of extras here.
        error = missing_extra(error) or error
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
        return f"cannot write the output: {reason}", FileNotWritable.exit_code
    return f"{type(error).__name__}: {error} (unexpected: {_DEBUG} shows where)", 1


def _is_output(error: Exception) -> bool:
    """Return whether standard output failed: an error of a named file names that file."""
    return isinstance(error, OSError) and error.filename is None and error.errno is not None


def _discard_output() -> None:
    """Drop the rest of the output, also at the flush when Python exits."""
    with contextlib.suppress(OSError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tolerate_narrow_encodings() -> None:
    """Print a question mark rather than fail where a terminal has no ε."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
