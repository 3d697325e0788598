"""Policies that programs write: that of a whole survey on one machine, and the text of any.

A survey that is run on one machine for trying out has one owner for everybody, who allows exactly
what is asked: the domains of its question, its curator, its protocol, at any price, among addresses
of this machine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from incrowd.live.policy import (
    Allowance,
    ColumnRule,
    CrowdRule,
    CuratorRule,
    NetworkRule,
    Policy,
    key_text,
)
from incrowd.tasks.base import Task
from incrowd.tasks.raw import ColumnDomain

__all__ = ["policy_text", "survey_policy"]

_LOOPBACK = ("127.0.0.0/8", "::1/128")


def survey_policy(task: Task, column: str, curator: bytes, protocol: str) -> Policy:
    """The policy that allows one survey, whatever it costs.

    Args:
        task: The question.
        column: The column that it is about.
        curator: Identity key of the curator.
        protocol: Name of the protocol.

    """
    clear = task.clear_columns(column)
    columns = {name: _rule(domain, name in clear) for name, domain in task.domains(column).items()}
    entry = CuratorRule(
        key=key_text(curator),
        columns=tuple(columns),
        max_epsilon=math.inf,
        max_local_epsilon=math.inf,
        protocols=(protocol,),
    )
    most = math.nextafter(1.0, 0.0)
    return Policy(
        version=1,
        budget=Allowance(epsilon=math.inf, delta=most, local_epsilon=math.inf),
        crowd=CrowdRule(min=1, assume_colluding=0.0),
        curator=(entry,),
        column=columns,
        network=NetworkRule(dial=_LOOPBACK),
    )


def _rule(domain: ColumnDomain, clear: bool) -> ColumnRule:
    if domain.kind == "category":
        return ColumnRule(
            type="category", values=domain.categories, complete=domain.complete, public=clear
        )
    if domain.low is None and domain.high is None:
        return ColumnRule(type="text", public=True)
    low = -math.inf if domain.low is None else domain.low
    high = math.inf if domain.high is None else domain.high
    return ColumnRule(type="number", bounds=(low, high), complete=domain.complete, public=clear)


def policy_text(policy: Policy) -> str:
    """The policy as TOML."""
    tables: dict[str, Any] = msgspec.to_builtins(policy)
    parts = [f"version = {tables.pop('version')}"]
    columns, curators = tables.pop("column"), tables.pop("curator")
    parts += [_table(f"[{name}]", table) for name, table in tables.items()]
    parts += [_table("[[curator]]", each) for each in curators]
    for name, each in columns.items():
        coarse = each.pop("coarse")
        parts.append(_table(f"[column.{_string(name)}]", each))
        parts += [
            _table(f"[column.{_string(name)}.coarse.{_string(key)}]", table)
            for key, table in coarse.items()
        ]
    return "\n\n".join(parts) + "\n"


def _table(title: str, table: Mapping[str, Any]) -> str:
    lines = [f"{key} = {_value(value)}" for key, value in table.items() if _said(value)]
    return "\n".join([title, *lines])


def _said(value: Any) -> bool:
    """Whether a value has to be written: none, and empty lists, are what is meant without."""
    return value is not None and value != [] and value != ()


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        pairs = [f"{key} = {_value(each)}" for key, each in value.items() if _said(each)]
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)


def _string(text: str) -> str:
    # JSON escapes as TOML does, but for this one character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
