"""Blocks: results as data for people and programs, apart from their look in any medium.

A result is one list of sections, each of some blocks. A page, a terminal and a program are given
the same list: values are the full doubles that were computed, and only a renderer rounds them. This
module imports nothing of the package, so that every module can return blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

HEAD = "question"
"""The key of the section that heads all others; its title is the question."""

Bound = Literal["up", "down"]
"""The side to which a number is rounded: a guarantee up, a lower bound down."""
Style = Literal["paragraph", "heading", "item", "small", "code", "good", "bad", "notice"]
"""Looks of prose; a notice is shown on terminals too."""


@dataclass(frozen=True)
class Text:
    """Prose for a reader; consecutive items are one list."""

    text: str
    style: Style = "paragraph"


@dataclass(frozen=True)
class Fact:
    """One value under its name, as in ``median_epsilon``; a tuple of facts is a group of them.

    The number, or each number of a list, is rounded to the side of its ``bound``; to nearest
    without one. The ``unit`` is that of the value, or the thing whose sizes a list has; a ``note``
    is the meaning of the value.
    """

    name: str
    value: Any
    bound: Bound | None = None
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class DataTable:
    """Rows of cells under the names of their columns, and ``facts`` about the whole.

    A table for a ``file`` is written there, and drawn nowhere.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    facts: tuple[Fact, ...] = ()
    file: bool = False


@dataclass(frozen=True, eq=False)
class Figure:
    """Data that each medium draws in its own way, by the ``kind``; unknown kinds are not drawn.

    Programs read the data itself. ``alt`` is the drawing in words.
    """

    kind: str
    data: Mapping[str, Any] = field(repr=False)
    alt: str = ""
    caption: str = ""


Block = Text | Fact | DataTable | Figure


@dataclass(frozen=True)
class Section:
    """Blocks under a title, at a place among other sections; without a title it is no chapter."""

    key: str
    title: str
    order: float
    blocks: tuple[Block, ...]


def facts_from(
    values: Mapping[str, Any],
    up: Collection[str] = (),
    units: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Fact, ...]:
    """Make facts of plain data, a group of each mapping in it.

    Args:
        values: Values by their names.
        up: Names of numbers that bound something from above.
        units: Units by the names of their values.

    """
    return tuple(
        Fact(
            name,
            # A tuple in a fact is a group of facts.
            facts_from(value, up, units)
            if isinstance(value, Mapping)
            else list(value)
            if isinstance(value, tuple)
            else value,
            "up" if name in up else None,
            units.get(name, ""),
        )
        for name, value in values.items()
    )


def values_of(facts: Iterable[Fact]) -> dict[str, Any]:
    """Return the plain data of facts."""
    return {
        each.name: values_of(each.value) if isinstance(each.value, tuple) else each.value
        for each in facts
    }


def arranged(sections: Iterable[Section]) -> tuple[Section, ...]:
    """Return sections in their order; blocks of sections with one key are joined."""
    found: dict[str, Section] = {}
    for each in sorted(sections, key=lambda each: each.order):
        before = found.get(each.key, replace(each, blocks=()))
        title, blocks = before.title or each.title, (*before.blocks, *each.blocks)
        found[each.key] = replace(before, title=title, blocks=blocks)
    return tuple(found.values())


def chapters(sections: Iterable[Section]) -> list[Section]:
    """Return the sections that have a title, except the head."""
    return [each for each in sections if each.title and each.key != HEAD]


def facts(sections: Iterable[Section]) -> Iterator[Fact]:
    """Yield all facts, in the order of the sections."""
    for section in sections:
        yield from (each for each in section.blocks if isinstance(each, Fact))
