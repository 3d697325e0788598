"""What the paper on order-private shuffling prints: for comparison only.

"A Shuffling Framework for Local Differential Privacy" (Meehan, Roy Chowdhury, Chaudhuri, Jha). Its
figures are drawn without numbers; those in its text are here, and its worked example, whose people
are 1 to 8 as printed. The sensitivity ω(ω + 1)/2 is a bound and no equality, as
``docs/theory/order.md`` shows: the mechanism is safe with it, and shuffles more than it must.
"""

from __future__ import annotations

__all__ = [
    "ALPHA",
    "DRAWN",
    "EPSILON",
    "FIGURE_ALPHA",
    "FIGURE_EPSILON",
    "GROUPS",
    "ORDER",
    "REDUCTIONS",
    "RELEASED",
]

ALPHA, EPSILON = 4.0, 2.5
"""Of Figures 3 and 5."""
FIGURE_ALPHA, FIGURE_EPSILON = 1.0, 2.55
"""Of Figure 1."""
REDUCTIONS = {
    "PUDF": (2.7, "at the attack’s own distance r*"),
    "Adult": (1.7, "at r = 1 and the same λ as without shuffling"),
}
"""How many times fewer people are vulnerable than without shuffling, in words of the paper."""

ORDER = (5, 2, 3, 8, 4, 1, 6, 7)
"""The reference order of the worked example: the only one that fits all that is said of it."""
DRAWN = (3, 2, 5, 4, 8, 1, 7, 6)
RELEASED = (1, 2, 5, 8, 3, 7, 6, 4)
"""Whose report each person’s place gets, person 1 first."""
GROUPS = {5: (5, 2, 3, 8, 4), 8: (8, 3, 5), 4: (4, 5, 7)}
"""Those groups that the text names; the others are only drawn."""
