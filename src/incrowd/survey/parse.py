"""The text of ``survey.toml``, turned into checked descriptions or into one precise complaint.

``version = 2`` and a ``title``, then the tables: ``[data]`` the file of answers, a ``[[question]]``
for each question, ``[budget]`` the guarantee that all of them together must keep, ``[protocol]``
how reports travel, ``[limits]`` what that may cost where a protocol chooses its own settings,
``[live]`` how a run over a network goes. The keys of the last three are the fields of the
protocol's settings, of its limits and of the live options themselves; a question has those of its
task, and its own ``randomizer`` with the fields of that.

An error names the file and the exact key (``survey.toml: question.income.bounds[1]: expected
number, got text``). An unknown key is refused, because a misspelt one would otherwise change the
guarantee in silence. An error of a description itself keeps its own kind, and so its own exit code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from incrowd import checks, toml
from incrowd.data import read_numbers
from incrowd.errors import IncrowdError, InvalidConfig
from incrowd.graphs import names_family
from incrowd.live.options import LiveOptions
from incrowd.protocols.settings import fields_of
from incrowd.views import view_of

T = TypeVar("T")
Error = TypeVar("Error", bound=IncrowdError)
_TABLES = ("data", "question", "budget", "protocol", "limits", "live")
_OPTIONAL = ("data", "limits", "live")
_TEXTS = ("version", "title")
_QUESTION = "question"
VERSION = 2
_LATER = {
    "repeat": "waves of one survey",
    "heavy_hitters": "answers that are not known beforehand",
    "auto": "a protocol that is chosen for you",
    "trust": "a protocol that is chosen for you",
}
"""Words of later versions, and what they will ask for."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Guarantee that is required: ε at δ against a view, and no ε0 above a cap."""

    epsilon: float
    delta: float
    view: str = ""
    """Against whom; left out, whom the protocol protects from in the first place."""
    local_epsilon: float | None = None
    """The most that one person's reports alone may reveal, should every other protection fail."""
    ask: Literal["all", "one"] = "all"
    """Questions that each person answers: all of them, or one that the device draws."""

    def __post_init__(self) -> None:
        """Refuse numbers that are no guarantee, and views that do not exist."""
        checks.epsilon(self.epsilon)
        checks.delta(self.delta)
        if self.view:
            view_of(self.view)
        if self.local_epsilon is not None:
            checks.epsilon(self.local_epsilon, "local_epsilon")


class Origin:
    """Source of a survey's settings: a file, whose tables and keys its errors name."""

    def __init__(self, file: str) -> None:
        self.file = file

    def key(self, table: str, key: str) -> str:
        """Name of a setting."""
        return f"{table}.{key}" if table else key

    def locate(self, error: Error, table: str | None = None) -> Error:
        """Put file, table and key in front of an error, unless they are there already."""
        if error.where[:1] == (self.file,):
            return error
        if table is None:
            return error.located(self.file)
        if error.field is None or error.opens_with_field or error.where:
            return error.located(self.file, table)
        return error.located(self.file, self.key(table, error.field))

    @contextmanager
    def located(self, table: str | None = None) -> Iterator[None]:
        """Locate every error that is raised inside."""
        try:
            yield
        except IncrowdError as error:
            self.locate(error, table)
            raise


@dataclass(frozen=True)
class Table:
    """One table of a survey; knows where it stands, for its error messages."""

    origin: Origin
    name: str
    values: Mapping[str, Any]

    def located(self) -> AbstractContextManager[None]:
        """Locate every error that is raised inside in this table."""
        return self.origin.located(self.name)

    def fail(self, key: str, problem: str) -> InvalidConfig:
        """Return the error to raise for one key."""
        return self.origin.locate(InvalidConfig(problem, field=key), self.name)

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Return the value of one key; without a default it must be there."""
        value = self.values.get(key, default)
        if value is None:
            raise self.fail(key, "missing; add this key")
        if not isinstance(value, kind):
            wanted, found = (toml.spoken(each.__name__) for each in (kind, type(value)))
            raise self.fail(key, f"expected {wanted}, got {found}")
        return value

    def choose(self, options: Collection[str]) -> str:
        """Return the ``kind`` of the table, one of ``options``."""
        kind = self.get("kind", str)
        if kind not in options:
            raise self.fail("kind", f"unknown kind {kind!r}; {checks.did_you_mean(kind, options)}")
        return kind

    def known(self, keys: Collection[str]) -> None:
        """Refuse a key that is none of these."""
        for key in self.values:
            if key not in keys:
                raise self.fail(key, f"unknown key; {checks.did_you_mean(key, keys)}")

    def without(self, *keys: str) -> Table:
        """Return the table without keys that belong to the survey, not to a description."""
        kept = {name: each for name, each in self.values.items() if name not in keys}
        return replace(self, values=kept)

    def build(self, description: type[T], **more: Any) -> T:
        """Return the description that this table holds, with ``more`` filled in by the survey."""
        values = {**self.values, **more}
        with self.located():
            try:
                return msgspec.convert(values, description)
            except msgspec.ValidationError as error:
                # msgspec wraps what a description's checks raise; their kind decides the exit code.
                if isinstance(error.__cause__, IncrowdError):
                    raise error.__cause__ from None
                raise _explained(error, description, values) from error

    def from_folder(self, folder: Path, description: type[msgspec.Struct]) -> Table:
        """Return the table with the files that it names as named from this folder.

        A family of graphs stands where a file could, and is in no folder. Where a list of numbers
        is wanted, a name is that of the file which holds them.
        """
        found: dict[str, Any] = {}
        for name, field in fields_of(description).items():
            value = self.values.get(name)
            if field.listed and isinstance(value, str):
                found[name] = read_numbers(folder / value)
            if field.path and value and isinstance(value, str) and not names_family(value):
                found[name] = str(folder / value)
        return replace(self, values={**self.values, **found})


@dataclass(frozen=True)
class SurveyDocument:
    """The tables of one survey, as they are written."""

    path: Path
    """Name of the file; other files are named from its folder."""
    text: str
    title: str
    origin: Origin
    data: Table
    questions: tuple[Table, ...]
    budget: Budget
    protocol: Table
    limits: Table
    live: LiveOptions

    @property
    def folder(self) -> Path:
        """Folder from which files are named."""
        return self.path.parent

    def files(self, description: type[msgspec.Struct]) -> tuple[Path, ...]:
        """Return the file and every file that it names, where its protocol has these settings."""
        named = [self.data.values.get(key) for key in ("file", "schema")]
        settings = self.protocol.values
        named += [settings.get(each.name) for each in fields_of(description).values() if each.file]
        found = [each for each in named if isinstance(each, str) and not names_family(each)]
        return (self.path, *(self.folder / each for each in found))


def parse(text: str, path: Path, origin: Origin | None = None) -> SurveyDocument:
    """Parse the text of a survey; what is no TOML is refused with its line and column."""
    origin = origin or Origin(str(path))
    tables = toml.parse(str(path), text)
    _check_version(tables, origin)
    for key, value in tables.items():
        if key in _LATER:
            raise origin.locate(InvalidConfig(_later(key)), key)
        if key not in (*_TABLES, *_TEXTS):
            hint = checks.did_you_mean(key, (*_TABLES, *_TEXTS))
            raise origin.locate(InvalidConfig(f"unknown key; {hint}"), key)
        if key in _TABLES and not isinstance(value, list if key == _QUESTION else dict):
            written = f"[[{key}]]" if key == _QUESTION else f"[{key}]"
            raise origin.locate(InvalidConfig(f"expected a table, written as {written}"), key)
    for key in _TABLES:
        if not tables.get(key) and key not in _OPTIONAL:
            written = f"[[{key}]]" if key == _QUESTION else f"[{key}]"
            raise origin.locate(InvalidConfig(f"missing; add a table {written}"), key)
    found = {
        name: Table(origin, name, tables.get(name, {})) for name in _TABLES if name != _QUESTION
    }
    found["budget"].known(fields_of(Budget))
    found["live"].known(fields_of(LiveOptions))
    return SurveyDocument(
        path=path,
        text=text,
        title=Table(origin, "", tables).get("title", str, ""),
        origin=origin,
        data=found["data"],
        questions=tuple(_questions(tables[_QUESTION], origin)),
        budget=found["budget"].build(Budget),
        protocol=found["protocol"],
        limits=found["limits"],
        live=found["live"].build(LiveOptions),
    )


def _check_version(tables: Mapping[str, Any], origin: Origin) -> None:
    version = tables.get("version")
    if "task" in tables or version == 1:
        problem = "this survey is of version 1: 'incrowd check --upgrade FILE' rewrites it"
        raise origin.locate(InvalidConfig(problem))
    if version is None:
        raise origin.locate(InvalidConfig(f"missing; begin with version = {VERSION}"), "version")
    if version != VERSION:
        problem = f"expected {VERSION}, got {version!r}: this program reads no other"
        raise origin.locate(InvalidConfig(problem), "version")


def check_later(protocol: Table) -> None:
    """Refuse a protocol that is to be chosen, which comes later."""
    if protocol.values.get("kind") == "auto":
        raise protocol.fail("kind", f"auto {_later('auto')}")
    if "trust" in protocol.values:
        raise protocol.fail("trust", _later("trust"))


def _later(word: str) -> str:
    return f"asks for {_LATER[word]}, which is not supported yet; leave it out"


def _questions(tables: list[Any], origin: Origin) -> Iterator[Table]:
    """Tables of the questions, each named after its id, or by its number without one."""
    ids: set[str] = set()
    for number, values in enumerate(tables, 1):
        table = Table(origin, f"{_QUESTION}[{number}]", values)
        if not isinstance(values, dict):
            raise origin.locate(
                InvalidConfig("expected a table, written as [[question]]"), "question"
            )
        if values.get("kind") in _LATER:
            raise table.fail("kind", f"{values['kind']} {_later(values['kind'])}")
        named = table.get("id", str, table.get("column", str, ""))
        if named in ids:
            raise table.fail("id", f"two questions are called {named!r}: give each its own id")
        if named:
            ids.add(named)
            table = replace(table, name=f"{_QUESTION}.{named}")
        yield table


def read(path: Path) -> SurveyDocument:
    """Read and parse a survey file."""
    return parse(toml.read_text(path, "survey"), path)


def _explained(
    error: msgspec.ValidationError, description: type, values: Mapping[str, Any]
) -> InvalidConfig:
    """The same problem in the words of TOML."""
    where, problem = toml.explain(error)
    key = where.removeprefix(".")
    field = fields_of(description).get(key)
    if field is not None and field.chosen and field.name in values:
        problem = f"expected {field.expected}, got {values[field.name]!r}"
    return InvalidConfig(problem, field=key or None)
