"""Policies that programs write: that of a whole survey on one machine, and the text of any.

A survey that is run on one machine for trying out has one owner for everybody, who allows exactly
what is asked: the domains of its question, its curator, its protocol, at any price, among addresses
of this machine.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

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

_LOOPBACK = ("127.0.0.0/8", "::1/128")
_MARGIN = 36
"""Column of the comments."""


def survey_policy(task: Task, column: str, curator: bytes, protocol: str) -> Policy:
    """The policy that allows one survey, whatever it costs.

    Args:
        task: The question.
        column: The column that it is about.
        curator: Identity key of the curator.
        protocol: Name of the protocol.

    """
    columns = question_columns(task, column)
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


def question_columns(task: Task, column: str) -> dict[str, ColumnRule]:
    """The columns of a question with its domains; those that it sends in the clear are public."""
    clear = task.clear_columns(column)
    return {
        name: column_rule(domain, public=name in clear)
        for name, domain in task.domains(column).items()
    }


def column_rule(domain: ColumnDomain, *, public: bool) -> ColumnRule:
    """The entry of a column that has this domain."""
    if domain.kind == "category":
        return ColumnRule(
            type="category", values=domain.categories, complete=domain.complete, public=public
        )
    if domain.kind == "text":
        return ColumnRule(type="text", public=public)
    low = -math.inf if domain.low is None else domain.low
    high = math.inf if domain.high is None else domain.high
    return ColumnRule(type="number", bounds=(low, high), complete=domain.complete, public=public)


_COMMENTS: Final[Mapping[str, str]] = {
    "[budget]": "for life: what is spent never comes back",
    "[budget].epsilon": "sum over all surveys, towards the curator",
    "[budget].delta": "failure probability, over all surveys",
    "[budget].local_epsilon": "the same sum if everybody else colludes",
    "[budget].view": "parties towards whom ε is counted",
    "[budget].per_day": "bounds on any 24 hours",
    "[crowd].min": "smaller crowds are declined, whatever a survey asks for",
    "[crowd].assume_colluding": "share of the people asked who may help the curator",
    "[consent].mode": '"ask" asks before each survey; silence is refusal',
    "[consent].on_refusal": '"leave" is visible to others',
    "[[curator]].key": "identity key, as 'incrowd keys show' prints it",
    "[[curator]].columns": "all that it may ask for",
    "[[curator]].max_epsilon": "of one survey, and of its open ones together",
    "[[curator]].max_local_epsilon": "the same if everybody else colludes",
    "complete": "true if everybody has a value: no outcome for a missing one",
    "public": "true if everybody may know it: it may leave in the clear",
    "[network].dial": "private addresses that may be dialled",
}
"""Explanations of keys, for an owner who reads the file; of a column's keys in any table."""


def policy_text(policy: Policy, *, explained: bool = False) -> str:
    """The policy as TOML; ``explained`` with a comment beside each key that needs one."""
    told = _COMMENTS if explained else {}
    tables: dict[str, Any] = msgspec.to_builtins(policy)
    parts = [f"version = {tables.pop('version')}"]
    columns, curators = tables.pop("column"), tables.pop("curator")
    parts += [
        _table(f"[{name}]", table, told)
        for name, table in tables.items()
        if any(map(_said, table.values()))
    ]
    parts += [_table("[[curator]]", each, told) for each in curators]
    for name, each in columns.items():
        coarse = each.pop("coarse")
        parts.append(_table(f"[column.{_key(name)}]", each, told))
        parts += [
            _table(f"[column.{_key(name)}.coarse.{_key(key)}]", table, told)
            for key, table in coarse.items()
        ]
    return "\n\n".join(parts) + "\n"


def _table(title: str, table: Mapping[str, Any], told: Mapping[str, str]) -> str:
    lines = [_commented(title, told.get(title))]
    for key, value in table.items():
        if _said(value):
            comment = told.get(f"{title}.{key}") or told.get(key)
            lines.append(_commented(f"{key} = {_value(value)}", comment))
    return "\n".join(lines)


def _commented(line: str, comment: str | None) -> str:
    return line if comment is None else f"{line.ljust(_MARGIN)} # {comment}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _string(name)


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
