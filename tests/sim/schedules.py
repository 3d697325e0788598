"""Hypothesis strategies for fault schedules."""

from __future__ import annotations

from hypothesis import strategies as st

from incrowd.sim import Faults

__all__ = ["schedules"]


def schedules(most_lost: float) -> st.SearchStrategy[Faults]:
    """Draw faults that lose at most this share of the messages."""
    return st.builds(
        Faults,
        loss=st.floats(0, most_lost),
        duplicate=st.floats(0, 0.8),
        reorder=st.floats(0, 1),
        crash=st.floats(0, 0.4),
        dropout=st.floats(0, 0.6),
        outages=st.floats(0, 120),
        downtime=st.floats(0, 30),
        delay=st.floats(0, 10),
        delay_law=st.sampled_from(["constant", "exponential", "heavy"]),
    )
