"""The text of ``survey.toml``, turned into checked descriptions or into one precise complaint.

Six tables: ``[task]`` what is asked and of which data, ``[budget]`` what must be promised,
``[protocol]`` how the reports travel, ``[randomizer]`` what each person does to their answer,
``[limits]`` what it may cost where a protocol chooses its own parameters, ``[live]`` how a run over
a network goes. The keys of the last four are the fields of the protocol's parameters, of the
randomizer, of the protocol's limits and of the live options themselves.

An error names the file and the exact key (``survey.toml: task.bounds[1]: expected number, got
text``). An unknown key is refused, because a misspelt one would otherwise change the promise in
silence. An error of a description itself keeps its own kind, and so its own exit code.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from incrowd import checks, toml
from incrowd.errors import IncrowdError, InvalidConfig
from incrowd.graphs import names_family
from incrowd.live.options import LiveOptions
from incrowd.privacy.guarantee import view_of
from incrowd.protocols.settings import fields_of
from incrowd.survey.data import read_numbers

__all__ = ["Budget", "Section", "SurveyFile", "read"]

T = TypeVar("T")
_TABLES = ("task", "budget", "protocol", "randomizer", "limits", "live")
_OPTIONAL = ("randomizer", "limits", "live")


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What must be promised: ε at δ against a view, and no ε0 above a cap."""

    epsilon: float
    delta: float
    view: str = ""
    """Against whom; left out, whom the protocol protects from in the first place."""
    local_epsilon: float | None = None
    """The most that one report alone may reveal, should every other protection fail."""

    def __post_init__(self) -> None:
        """Refuse numbers that are no promise, and views that do not exist."""
        checks.epsilon(self.epsilon)
        checks.delta(self.delta)
        if self.view:
            view_of(self.view)
        if self.local_epsilon is not None:
            checks.epsilon(self.local_epsilon, "local_epsilon")


class Section:
    """One table of a survey file; knows where it stands, for its error messages."""

    def __init__(self, file: str, name: str, values: Mapping[str, Any]) -> None:
        self.file = file
        self.name = name
        self.values = dict(values)

    def fail(self, key: str, problem: str) -> InvalidConfig:
        """The error to raise for one key."""
        return InvalidConfig(f"{self.file}: {self.name}.{key}: {problem}")

    def take(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Remove one key that belongs to the survey rather than to the description."""
        value = self.values.pop(key, default)
        if value is None:
            raise self.fail(key, "missing; add this key")
        if not isinstance(value, kind):
            raise self.fail(key, f"expected {_named(kind)}, got {_named(type(value))}")
        return value

    def choose(self, options: Collection[str], default: str | None = None) -> str:
        """The ``kind`` of the table, one of ``options``."""
        kind = self.take("kind", str, default)
        if kind not in options:
            raise self.fail("kind", f"unknown kind {kind!r}; {checks.did_you_mean(kind, options)}")
        return kind

    def known(self, keys: Collection[str]) -> None:
        """Refuse a key that is none of these."""
        for key in self.values:
            if key not in keys:
                raise self.fail(key, f"unknown key; {checks.did_you_mean(key, keys)}")

    def build(self, description: type[T], **more: Any) -> T:
        """The description that this table holds, with ``more`` filled in by the survey."""
        values = self.values | more
        try:
            return msgspec.convert(values, description)
        except msgspec.ValidationError as error:
            raise self._explained(error, description, values) from error

    def resolve(self, folder: Path, description: type[msgspec.Struct]) -> None:
        """Let the fields that name files name them from this folder.

        A family of graphs stands where a file could, and is in no folder. Where a list of numbers
        is wanted, a name is that of the file which holds them.
        """
        for name, field in fields_of(description).items():
            value = self.values.get(name)
            if field.listed and isinstance(value, str):
                self.values[name] = read_numbers(folder / value)
            if field.path and value and isinstance(value, str) and not names_family(value):
                self.values[name] = str(folder / value)

    def _explained(
        self, error: msgspec.ValidationError, description: type, values: Mapping[str, Any]
    ) -> IncrowdError:
        # msgspec wraps what a description's own checks raise; their kind decides the exit code.
        cause = error.__cause__
        if isinstance(cause, IncrowdError):
            return type(cause)(f"{self.file}: {self.name}: {cause}")
        where, problem = toml.explain(error)
        field = fields_of(description).get(where.removeprefix("."))
        if field is not None and field.chosen and field.name in values:
            problem = f"expected {field.expected}, got {values[field.name]!r}"
        return InvalidConfig(f"{self.file}: {self.name}{where}: {problem}")


class SurveyFile:
    """The tables of one file; what is asked and how is still to be built."""

    def __init__(self, path: Path, text: str) -> None:
        """Parse the text; what is no TOML is refused with its line and column."""
        self.path = path
        self.text = text
        name = str(path)
        tables = toml.parse(name, text)
        for key, value in tables.items():
            if key not in _TABLES:
                raise InvalidConfig(
                    f"{name}: {key}: unknown key; {checks.did_you_mean(key, _TABLES)}"
                )
            if not isinstance(value, dict):
                raise InvalidConfig(f"{name}: {key}: expected a table, written as [{key}]")
        for key in _TABLES:
            if key not in tables and key not in _OPTIONAL:
                raise InvalidConfig(f"{name}: {key}: missing; add a table [{key}]")
        self.task = Section(name, "task", tables["task"])
        self.protocol = Section(name, "protocol", tables["protocol"])
        self.randomizer = Section(name, "randomizer", tables.get("randomizer", {}))
        self.limits = Section(name, "limits", tables.get("limits", {}))
        budget = Section(name, "budget", tables["budget"])
        budget.known(fields_of(Budget))
        self.budget = budget.build(Budget)
        live = Section(name, "live", tables.get("live", {}))
        live.known(fields_of(LiveOptions))
        self.live = live.build(LiveOptions)


def files_named(path: Path, text: str, description: type[msgspec.Struct]) -> tuple[Path, ...]:
    """A survey file and every file that it names, where its protocol has these parameters."""
    tables = tomllib.loads(text)
    task, protocol = tables["task"], tables["protocol"]
    named = [task.get("data"), task.get("schema")]
    named += [protocol.get(field.name) for field in fields_of(description).values() if field.file]
    folder = path.parent
    files = [folder / each for each in named if isinstance(each, str) and not names_family(each)]
    return (path, *files)


def read(path: Path) -> SurveyFile:
    """Read and parse a survey file."""
    return SurveyFile(path, toml.read_text(path, "survey"))


def _named(kind: type) -> str:
    return toml.spoken(kind.__name__)
