"""The recorded values: reading, writing, and saying where two of them differ.

A file has the cases of one protocol and the sentences that they quote, each once. Numbers are
written by ``repr``, so that a double is read back as it was.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.golden.adapter import Sentence, evaluate
from tests.golden.grid import CASES

__all__ = ["NOISE", "VALUES", "differences", "recorded", "renewed", "write"]

VALUES = Path(__file__).parent / "values"


def recorded(group: str) -> dict[str, Any]:
    """The committed values of a group of cases, sentences in their places."""
    path = VALUES / f"{group}.json"
    if not path.exists():
        return {}
    held = json.loads(path.read_text())
    return {name: _spelled(each, held["sentences"]) for name, each in held["cases"].items()}


def renewed(group: str) -> dict[str, Any]:
    """The values as the library computes them now."""
    return {case.name: evaluate(case) for case in CASES[group]}


def write(group: str, values: dict[str, Any]) -> None:
    """Record these values."""
    sentences: dict[str, str] = {}
    cases = {name: _quoted(each, sentences) for name, each in values.items()}
    held = {"sentences": dict(sorted(sentences.items())), "cases": cases}
    text = "\n".join(_lines(held, 0))
    VALUES.mkdir(exist_ok=True)
    (VALUES / f"{group}.json").write_text(text + "\n")


NOISE = 1e-10
"""Relative differences that another processor's vector instructions make: 1e-12 was seen."""
_FLOOR = 2.0**-50
"""Absolute ones: a small δ is a difference of Fourier sums around 1, and 1.5e-17 was seen."""


def differences(due: Any, found: Any, where: str = "", noise: float = 0.0) -> Iterator[str]:
    """One line for each key under which two values differ, numbers by more than ``noise``."""
    if isinstance(due, dict) and isinstance(found, dict):
        for key in dict.fromkeys((*due, *found)):
            inside = f"{where} › {key}" if where else key
            if key not in found:
                yield f"{inside}: gone, was {_shown(due[key])}"
            elif key not in due:
                yield f"{inside}: new, {_shown(found[key])}"
            else:
                yield from differences(due[key], found[key], inside, noise)
    elif isinstance(due, list) and isinstance(found, list) and len(due) == len(found):
        for index, (one, other) in enumerate(zip(due, found, strict=True)):
            yield from differences(one, other, f"{where}[{index}]", noise)
    elif not _same(due, found, noise):
        apart = ""
        if isinstance(due, float) and isinstance(found, float):
            apart = f" ({_ulps(due, found)} ulps)"
        yield f"{where}: {_shown(due)} → {_shown(found)}{apart}"


def _same(due: Any, found: Any, noise: float) -> bool:
    if isinstance(due, str) and isinstance(found, str):
        return str(due) == str(found)
    if type(due) is not type(found):
        return False
    if isinstance(due, float) and math.isnan(due):
        return math.isnan(found)
    if isinstance(due, float):
        return math.isclose(due, found, rel_tol=noise, abs_tol=_FLOOR if noise else 0.0)
    return bool(due == found)


def _ulps(one: float, other: float) -> str:
    if not math.isfinite(one) or not math.isfinite(other):
        return "∞"
    return f"{abs(one - other) / math.ulp(max(abs(one), abs(other))):.0f}"


def _shown(value: Any) -> str:
    text = repr(str(value) if isinstance(value, str) else value)
    return text if len(text) <= 120 else text[:119] + "…"


def _quoted(value: Any, sentences: dict[str, str]) -> Any:
    """The same with sentences replaced by short names, under which they are put aside."""
    if isinstance(value, Sentence):
        name = "§" + hashlib.sha256(value.encode()).hexdigest()[:8]
        sentences[name] = str(value)
        return name
    if isinstance(value, dict):
        return {key: _quoted(each, sentences) for key, each in value.items()}
    if isinstance(value, list):
        return [_quoted(each, sentences) for each in value]
    return value


def _spelled(value: Any, sentences: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _spelled(each, sentences) for key, each in value.items()}
    if isinstance(value, list):
        return [_spelled(each, sentences) for each in value]
    known = isinstance(value, str) and value in sentences
    return Sentence(sentences[value]) if known else value


_DEEP = 3
"""Below this depth a value stands on one line, so that a difference is read at a glance."""


def _lines(value: Any, depth: int) -> Iterator[str]:
    if not isinstance(value, dict) or depth > _DEEP or not value:
        yield json.dumps(value, ensure_ascii=False)
        return
    yield "{"
    last = len(value) - 1
    for index, (key, each) in enumerate(value.items()):
        first, *rest = _lines(each, depth + 1)
        inner = [f"{json.dumps(key, ensure_ascii=False)}: {first}", *rest]
        inner[-1] += "," if index < last else ""
        yield from (" " + line for line in inner)
    yield "}"
