"""Policies of the owners in tests: wide, unless a test says otherwise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from incrowd.live.policy import (
    Allowance,
    ColumnRule,
    Consent,
    CrowdRule,
    CuratorRule,
    NetworkRule,
    Policy,
    key_text,
)
from incrowd.protocols import PROTOCOLS

__all__ = ["CYCLES", "wide"]

CYCLES = {"cycles": ColumnRule(type="category", values=("no", "yes"), complete=True)}


def wide(
    *curators: bytes,
    columns: Mapping[str, ColumnRule] = CYCLES,
    epsilon: float = math.inf,
    delta: float = 0.9,
    local_epsilon: float = math.inf,
    view: str = "curator",
    max_epsilon: float = math.inf,
    max_local_epsilon: float = math.inf,
    crowd: int = 1,
    **others: Any,
) -> Policy:
    """A policy that lets these curators ask for these columns, on this machine."""
    entries = tuple(
        CuratorRule(
            key=key_text(each),
            columns=tuple(columns),
            max_epsilon=max_epsilon,
            max_local_epsilon=max_local_epsilon,
            protocols=tuple(PROTOCOLS),
        )
        for each in curators
    )
    return Policy(
        version=1,
        budget=Allowance(epsilon=epsilon, delta=delta, local_epsilon=local_epsilon, view=view),
        crowd=CrowdRule(min=crowd, assume_colluding=0.0),
        consent=others.get("consent", Consent()),
        curator=entries,
        column=dict(columns),
        network=NetworkRule(dial=("127.0.0.0/8",)),
    )
