"""What the paper on network shuffling prints, for comparison only.

*Network Shuffling: Privacy Amplification via Random Walks*, by Seng Pei Liew, Tsubasa Takahashi,
Shun Takagi, Fumiyuki Kato, Yang Cao and Masatoshi Yoshikawa. A report walks t rounds on a graph
with stationary law π and spectral gap α; P is the law of where it ends, and all bounds depend on it
through Σ P². Two of the steps are false as printed, and with them Theorem 5.3 at finite times: see
``docs/theory/network_shuffle.md``, which proves other bounds, and the regression tests of the
counterexamples. The library never uses a formula of this module.
"""

from __future__ import annotations

import math

__all__ = [
    "paper_all_stationary",
    "paper_all_symmetric",
    "paper_collision",
    "paper_count_norm",
    "paper_single",
    "paper_single_approximate",
    "paper_single_simplified",
    "paper_stationary_collision",
]


def paper_stationary_collision(n: int, irregularity: float) -> float:
    """``Σ π² = Γ/n``, from the paper's Γ = ⟨k²⟩/⟨k⟩² of the degrees k; correct."""
    return irregularity / n


def paper_collision(stationary_collision: float, gap: float, rounds: int) -> float:
    """Equation (7): ``Σ P² ≤ Σ π² + (1 − α)^(2t)``. False unless the graph is regular.

    The eigenvectors of the walk are orthogonal only when weighted by π, and the cross term of P − π
    and π falls like (1 − α)^t, not like its square. On ten triangles that share a vertex the true
    excess is 400 times the printed one after 10 rounds (docs/theory/network_shuffle.md).
    """
    return stationary_collision + (1 - gap) ** (2 * rounds)


def paper_count_norm(n: int, collision: float, delta: float) -> float:
    """Lemma 5.1: ``‖L‖₂ ≤ √((n² − n) Σ P²) + √(n ln(1/δ))`` with probability 1 − δ. False.

    L are the numbers of reports that the people hold. The mean of ‖L‖² is n + (n² − n) Σ P²: the
    n pairs of a report with itself are missing, and for δ near one the bound lies below the mean
    (docs/theory/network_shuffle.md).
    """
    return math.sqrt((n * n - n) * collision) + math.sqrt(n * math.log(1 / delta))


def _all(epsilon0: float, spread: float, delta: float) -> float:
    """Equation (8), where ``spread`` is the paper's ε₁."""
    a = math.expm1(epsilon0) * math.exp(2 * epsilon0)
    return (a * spread) ** 2 / 2 + a * spread * math.sqrt(2 * math.log(1 / delta))


def paper_all_stationary(
    epsilon0: float, n: int, collision: float, delta: float, delta2: float
) -> float:
    """Theorem 5.3: an ε at total δ + δ₂ for the "all" protocol. Unsound.

    ``(a ε₁)²/2 + a ε₁ √(2 ln(1/δ))`` with ``a = (e^ε0 − 1) e^(2 ε0)`` and
    ``ε₁ = √((1 − 1/n) Σ P²) + √(ln(1/δ₂)/n)``, Σ P² by :func:`paper_collision`. The proof takes the
    assignment of reports to places as uniform given the counts, which holds only if all reports
    have the same law P; it also uses Lemma 5.1 as printed. On a complete graph with one pendant
    vertex the claim is off by five orders of magnitude in δ (docs/theory/network_shuffle.md).
    """
    spread = math.sqrt((1 - 1 / n) * collision) + math.sqrt(math.log(1 / delta2) / n)
    return _all(epsilon0, spread, delta)


def paper_all_symmetric(
    epsilon0: float, n: int, collision: float, ratio: float, delta: float, delta2: float
) -> float:
    """Theorem 5.4: the same for regular graphs, with Σ P² of "any user". Unproven.

    ``ε₁ = √((1 − 1/n) ρ*² Σ P²) + √(ln(1/δ₂)/n)``, where ρ* = ``ratio`` is the largest over the
    smallest positive P. "Any user" has a meaning only if the graph looks the same from every
    vertex; even then the laws of two people differ, and a sum over the support of P is replaced by
    n. No counterexample is known (docs/theory/network_shuffle.md).
    """
    spread = math.sqrt((1 - 1 / n) * collision) * ratio + math.sqrt(math.log(1 / delta2) / n)
    return _all(epsilon0, spread, delta)


def paper_single(epsilon0: float, collision: float, delta: float) -> float:
    """Theorems 5.5 and 5.6: an ε at δ for the "single" protocol.

    ``a² Σ P²/2 + a √(2 ln(1/δ) Σ P²)`` with ``a = e^ε0 (e^ε0 − 1)``. Sound with the exact Σ P² of
    the person who has the largest; unsound with the bound of :func:`paper_collision`, which the
    theorem prints (docs/theory/network_shuffle.md).
    """
    a = math.exp(epsilon0) * math.expm1(epsilon0)
    return a * a * collision / 2 + a * math.sqrt(2 * math.log(1 / delta) * collision)


def paper_single_approximate(epsilon0: float, collision: float, delta: float) -> float:
    """Theorem 5.5 for an (ε0, δ0)-randomizer: the pure formula at 8 ε0.

    The total δ is larger by n (e^ε + 1) δ₁; the δ₂ that is printed there too belongs to the other
    protocol.
    """
    return paper_single(8 * epsilon0, collision, delta)


def paper_single_simplified(epsilon0: float, collision: float, delta: float) -> float:
    """Theorem 5.5, "when ε0 ≤ 1": ``800 ε0² Σ P² + 40 ε0 √(2 ln(1/δ) Σ P²)``. Needs 8 ε0 ≤ 1.

    It rests on ``e^x (e^x − 1) ≤ 5 x`` at x = 8 ε0, which holds for x ≤ 1 and little beyond; at
    ε0 = 1 it is too small by a factor of 2·10⁵ at least (docs/theory/network_shuffle.md).
    """
    return 800 * epsilon0**2 * collision + 40 * epsilon0 * math.sqrt(
        2 * math.log(1 / delta) * collision
    )
