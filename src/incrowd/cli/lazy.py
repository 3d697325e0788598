"""Commands that are known by name and help line, and loaded when they are run.

A group of them lists its commands, completes and corrects their names without importing what they
need, so that help and mistakes are answered immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class Deferred(TyperCommand):
    """The name of a command with its help line; ``load`` makes the command itself."""

    def __init__(self, name: str, line: str, load: Callable[[], Any]) -> None:
        super().__init__(name, help=line)
        self.load = load

    @cached_property
    def loaded(self) -> Any:
        """The command, made when it is first needed."""
        return command_of(self.load(), str(self.name))

    @property
    def commands(self) -> Mapping[str, Any]:
        """The commands of a group; none of a single command."""
        return getattr(self.loaded, "commands", {})


class LazyGroup(TyperGroup):
    """A group whose commands may be deferred until one of them is run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the named command, loaded, and the words that remain for it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.loaded if isinstance(command, Deferred) else command, rest


def command_of(made: Any, name: str) -> Any:
    """Return a command from a function, or from a group."""
    if isinstance(made, typer.Typer):
        made = typer.main.get_group(made)
    if isinstance(made, TyperGroup):
        made.name = name
        return made
    single = typer.Typer(add_completion=False)
    single.command(name)(made)
    return typer.main.get_command(single)
