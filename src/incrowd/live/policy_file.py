"""``policy.toml`` as a :class:`Policy`, or one line: file, key, what is wrong, how to fix it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from incrowd import checks, toml
from incrowd.errors import InvalidConfig
from incrowd.live.policy import (
    Allowance,
    Coarsening,
    ColumnRule,
    Consent,
    CrowdRule,
    CuratorRule,
    NetworkRule,
    Policy,
    Wrong,
)

_T = TypeVar("_T")

_KINDS: Final[Mapping[str, Any]] = {
    "budget": Allowance,
    "crowd": CrowdRule,
    "consent": Consent,
    "curator": tuple[CuratorRule, ...],
    "network": NetworkRule,
}
"""Type of each table of the file, but for columns, whose names are the owner's."""


def read_policy(path: Path, protocols: Collection[str] | None = None) -> Policy:
    """Read a policy; ``protocols`` are the names that entries may use."""
    return parse_policy(toml.read_text(path, "policy"), str(path), protocols)


def parse_policy(
    text: str, name: str = "policy.toml", protocols: Collection[str] | None = None
) -> Policy:
    """Parse the text of a policy; errors call it by this file name."""
    tables = toml.parse(name, text)
    known = Policy.__struct_fields__
    for key in tables:
        if key not in known:
            raise InvalidConfig(f"{name}: {key}: unknown key; {checks.did_you_mean(key, known)}")
    if tables.pop("version", None) != 1:
        raise InvalidConfig(f"{name}: version: expected 1; write version = 1")
    for key in ("budget", "crowd"):
        if key not in tables:
            raise InvalidConfig(f"{name}: {key}: missing; add a table [{key}]")
    columns = {
        key: _column(name, f"column.{key}", each)
        for key, each in _subtables(name, "column", tables.pop("column", {})).items()
    }
    built = {key: _build(name, key, each, _KINDS[key]) for key, each in tables.items()}
    try:
        policy = Policy(version=1, column=columns, **built)
    except Wrong as error:
        raise InvalidConfig(f"{name}: {error}") from error
    if protocols is not None:
        _check_protocols(policy, name, protocols)
    return policy


def _check_protocols(policy: Policy, name: str, protocols: Collection[str]) -> None:
    for index, each in enumerate(policy.curator):
        for position, kind in enumerate(each.protocols):
            if kind not in protocols:
                raise InvalidConfig(
                    f"{name}: curator[{index}].protocols[{position}]: unknown protocol {kind!r}; "
                    f"{checks.did_you_mean(kind, protocols)}"
                )


def _column(file: str, place: str, table: Any) -> ColumnRule:
    coarse = _subtables(file, f"{place}.coarse", table.pop("coarse", {}))
    described = {
        key: _build(file, f"{place}.coarse.{key}", each, Coarsening) for key, each in coarse.items()
    }
    rule = _build(file, place, table, ColumnRule)
    try:
        return ColumnRule(**(msgspec.structs.asdict(rule) | {"coarse": described}))
    except Wrong as error:
        raise InvalidConfig(f"{file}: {place}.{error}") from error


def _subtables(file: str, place: str, tables: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(tables, dict):
        raise InvalidConfig(f"{file}: {place}: expected tables, written as [{place}.name]")
    for name, each in tables.items():
        if not isinstance(each, dict):
            raise InvalidConfig(
                f"{file}: {place}.{name}: expected a table, written as [{place}.{name}]"
            )
    return tables


def _build(file: str, place: str, values: Any, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        where, problem = toml.explain(error)
        unknown = re.fullmatch(r"object contains unknown field (\w+)", problem)
        found = _type_at(where, kind)
        if unknown and isinstance(found, msgspec.inspect.StructType):
            hint = checks.did_you_mean(unknown[1], [each.name for each in found.fields])
            where, problem = f"{where}.{unknown[1]}", f"unknown key; {hint}"
        elif isinstance(found, msgspec.inspect.LiteralType):
            expected = " or ".join(f'"{each}"' for each in found.values)
            problem = f"expected {expected}"
        elif isinstance(error.__cause__, Wrong):
            key, _, problem = str(error.__cause__).partition(": ")
            where = f"{where}.{key}"
        raise InvalidConfig(f"{file}: {place}{where}: {problem}") from error


def _type_at(where: str, kind: Any) -> msgspec.inspect.Type:
    """The type that belongs at a path such as ``[0].budget.delta``."""
    found = msgspec.inspect.type_info(kind)
    for key in re.findall(r"\.(\w+)|\[\d+\]", where):
        if isinstance(found, msgspec.inspect.UnionType):
            # A table that may be missing.
            found = found.types[0]
        if isinstance(found, msgspec.inspect.StructType):
            found = next(each.type for each in found.fields if each.name == key)
        elif isinstance(found, msgspec.inspect.VarTupleType):
            found = found.item_type
    return found.types[0] if isinstance(found, msgspec.inspect.UnionType) else found
