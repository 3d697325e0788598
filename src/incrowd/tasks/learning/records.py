"""Records and labels as the trainer wants them: people first, everything finite.

A person has one record, with a label each, or k of them: then labels have the shape (people, k),
and records these two axes before their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd.errors import EmptyData, InvalidParameter, NotANumber
from incrowd.tasks.learning.models import Model


def labelled(
    model: Model, records: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Records, and what the losses want of their labels."""
    rows, given = records_of(records), np.asarray(labels)
    if given.ndim == 2 and rows.ndim > 2 and given.size:
        if rows.shape[:2] != given.shape:
            raise InvalidParameter(
                f"there are {rows.shape[:2]} records and {given.shape} labels, as (people, records "
                "of each): give one label for each record"
            )
        return rows, model.targets(given.reshape(-1)).reshape(given.shape)
    targets = model.targets(given)
    if len(rows) != len(targets):
        raise InvalidParameter(
            f"there are {len(rows)} records and {len(targets)} labels: give one label each"
        )
    return rows, targets


def records_of(records: ArrayLike) -> NDArray[Any]:
    """Finite records, people first; single and double precision stay what they are."""
    try:
        rows = np.asarray(records)
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(np.float64)
    except (TypeError, ValueError) as wrong:
        raise InvalidParameter("records must be numbers, as many for each person") from wrong
    if rows.ndim < 2:
        raise InvalidParameter(
            f"records must have one row per person and at least two axes, got {rows.shape}"
        )
    if len(rows) == 0:
        raise EmptyData("there are no records: at least one person must be there")
    if not np.isfinite(rows).all():
        raise NotANumber("records must be finite numbers: fill in or drop those that are not")
    return rows
