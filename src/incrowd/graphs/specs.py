"""Graphs by name: ``regular:8`` instead of a file, sized to the participants.

A family of :mod:`incrowd.graphs.families` is named by its word and, where it has one, a number:
``complete``, ``ring``, ``line``, ``star``, ``regular:8`` (the degree), ``erdos-renyi:0.02`` (the
chance that two people are joined), ``barabasi-albert:4`` (the edges of a newcomer) and
``geometric:0.1`` (the radius). A name with the suffix of a graph file, or with a folder, is a file.

Random families are drawn by a fixed seed, so that the same name and number of people give the same
graph. Graphs are connected: a disconnected draw is refused, since people in different parts could
never hide each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidGraph, InvalidParameter
from incrowd.graphs import families
from incrowd.graphs.files import SUFFIXES
from incrowd.graphs.graph import Graph
from incrowd.randomness import Seeds

_SEED = 0
_MOST_ENTRIES = 2**28
"""Twice the edges of the largest graph made by name: about a gigabyte."""


@dataclass(frozen=True)
class _Family:
    """Draw of a graph of n people, meaning of its number, approximate degree."""

    draw: Callable[[int, Any, np.random.Generator], Graph]
    degree: Callable[[int, float], float]
    number: str = ""
    example: str = ""
    whole: bool = True
    most: float = math.inf


_FAMILIES = {
    "complete": _Family(lambda n, _, __: families.complete(n), lambda n, _: n - 1),
    "ring": _Family(lambda n, _, __: families.ring(n), lambda _, __: 2),
    "line": _Family(lambda n, _, __: families.line(n), lambda _, __: 2),
    "star": _Family(lambda n, _, __: families.star(n), lambda _, __: 2),
    "regular": _Family(families.random_regular, lambda _, degree: degree, "degree", "8"),
    "erdos-renyi": _Family(
        families.erdos_renyi, lambda n, p: p * n, "chance that two are joined", "0.02", False, 1
    ),
    "barabasi-albert": _Family(
        families.barabasi_albert, lambda _, edges: 2 * edges, "number of edges per newcomer", "4"
    ),
    "geometric": _Family(
        families.geometric, lambda n, r: min(1.0, math.pi * r**2) * n, "radius", "0.1", whole=False
    ),
}


def names_family(text: str) -> bool:
    """Whether the text names a family of graphs, spelt right or wrong, rather than a file."""
    word, _, _ = text.partition(":")
    return bool(word) and not (
        "." in word or "/" in text or "\\" in text or text.lower().endswith(SUFFIXES)
    )


def named(text: str, n: int) -> Graph:
    """Return the connected graph of this name for ``n`` people, the same in every call."""
    family, number = _read(text)
    n = checks.crowd(n)
    if n * family.degree(n, number) > _MOST_ENTRIES:
        raise InvalidCrowd(
            f"graph {text} on n = {n} people has too many edges to be held: take a sparser family, "
            "such as regular:8",
            field="graph",
        )
    try:
        graph = family.draw(n, number, Seeds(_SEED).generator("graph"))
    except InvalidParameter as error:
        # With other people the same name may be possible.
        raise InvalidCrowd(f"graph {text}: {error}", field="graph") from error
    except InvalidGraph as error:
        raise InvalidGraph(f"graph {text}: {error}", field="graph") from error
    if not graph.is_connected:
        raise InvalidGraph(
            f"graph {text} on n = {n} people falls into {graph.components()[0]} parts that never "
            f"meet: raise its {family.number}, or take regular:8",
            field="graph",
        )
    return graph


def _read(text: str) -> tuple[_Family, Any]:
    word, colon, given = text.partition(":")
    family = _FAMILIES.get(word)
    if family is None:
        raise InvalidParameter(
            f"graph {text!r} is neither a file ({', '.join(SUFFIXES)}) nor a known family of "
            f"graphs; {checks.did_you_mean(word, _FAMILIES)}",
            field="graph",
        )
    if not family.number:
        if colon:
            raise InvalidParameter(
                f"graph {text!r}: {word} takes no number; write {word}", field="graph"
            )
        return family, 0
    try:
        number = int(given) if family.whole else float(given)
    except ValueError:
        raise InvalidParameter(
            f"graph {text!r}: {word} needs its {family.number}, such as {word}:{family.example}",
            field="graph",
        ) from None
    if not (math.isfinite(number) and 0 < number <= family.most):
        limit = "" if math.isinf(family.most) else f" and at most {family.most:g}"
        raise InvalidParameter(
            f"graph {text!r}: the {family.number} must be positive{limit}", field="graph"
        )
    return family, number
