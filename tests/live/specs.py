"""Specs with other contents than an honest curator signs."""

from __future__ import annotations

from typing import Any

import msgspec

from incrowd.live.task import Described, Spec

__all__ = ["DESCRIBED", "changed"]

DESCRIBED = frozenset(Described.__struct_fields__)
"""Fields of a question; none of them is a field of a spec."""


def changed(spec: Spec, **changes: Any) -> Spec:
    """The spec with these changes; those of a question are made to its first one."""
    asked = {name: changes.pop(name) for name in DESCRIBED & changes.keys()}
    made = msgspec.structs.replace(spec, **changes)
    if not asked:
        return made
    first, *others = made.questions
    questions = [msgspec.structs.replace(first, **asked), *others]
    return msgspec.structs.replace(made, questions=questions)
