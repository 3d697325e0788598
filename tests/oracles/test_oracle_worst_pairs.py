"""One pair of inputs dominates all others at every t: docs/theory/worst_pairs.md.

Dominance in convex order is the same as dominance of all stop-loss values E[(G − c)₊] at equal
means, and that is what is compared, over grids of pairs, t and c.
"""

from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from enumeration import Matrix, atoms_under, blanket_atoms, functional, worst_delta
from scipy.special import ndtr

from incrowd.randomizers import Gaussian, Laplace

TS = (0.05, 0.5, 0.9, 1.0, 1.1, 2.0, 6.0, 30.0)


def _rows(density, inputs, outputs):
    rows = np.array([density(outputs - x) for x in inputs])
    return rows / rows.sum(axis=1, keepdims=True)


def _stop_loss(rows, x0, x1, t, cuts):
    blanket = rows.min(axis=0)
    heights = (rows[x0] - t * rows[x1])[:, None] - np.outer(blanket, cuts)
    return np.maximum(heights, 0).sum(axis=0) + (1 - blanket.sum()) * np.maximum(-cuts, 0)


def _largest_excess(rows):
    """How far the stop-loss of any pair rises above that of (first, last)."""
    worst = -np.inf
    for t in TS:
        reach = min(60.0, float((rows.max(axis=0) / rows.min(axis=0)).max()))
        cuts = np.concatenate([np.linspace(-t, 1, 41) * reach, np.linspace(-3 * t, 3, 31)])
        top = _stop_loss(rows, 0, len(rows) - 1, t, cuts)
        for x0, x1 in product(range(len(rows)), repeat=2):
            worst = max(worst, float((_stop_loss(rows, x0, x1, t, cuts) - top).max()))
    return worst


OUTPUTS = np.arange(-8, 9, 0.01) + 0.005
INPUTS = np.linspace(0, 1, 11)


@pytest.mark.parametrize(
    ("density", "outputs"),
    [
        (lambda u: np.exp(-np.abs(u)), np.arange(-24, 25, 0.02) + 0.01),
        (lambda u: np.exp(-3 * np.abs(u)), OUTPUTS),
        (lambda u: np.exp(-(u**2) / 2), OUTPUTS),
        (lambda u: np.exp(-8 * u**2), OUTPUTS[(OUTPUTS > -2) & (OUTPUTS < 3)]),
        (lambda u: 1 / np.cosh(2 * u), OUTPUTS),
    ],
    ids=["laplace-1", "laplace-3", "gaussian-1", "gaussian-0.25", "logistic-like"],
)
def test_end_points_dominate_for_symmetric_log_concave_noise(density, outputs):
    rows = _rows(density, INPUTS, outputs)
    assert _largest_excess(rows) < 1e-9


def test_end_points_do_not_dominate_for_two_humped_noise():
    """The comparison can fail: with humps at ±½ the end points share the middle hump."""
    rows = _rows(lambda u: np.exp(-8 * np.abs(np.abs(u) - 0.5)) + 0.01, INPUTS, OUTPUTS)
    assert _largest_excess(rows) > 1e-2


def geometric_matrix(points: int, E: F) -> Matrix:
    """The Laplace mechanism on the lattice 0…points−1, clamped there (which loses nothing)."""
    step = F(1) / E  # the likelihood ratio of neighbouring inputs
    unit = (1 - step) / (1 + step)

    def chance(x: int, y: int) -> F:
        weight = unit * step ** abs(y - x)
        return weight / (1 - step) if y in (0, points - 1) else weight

    return tuple(tuple(chance(x, y) for y in range(points)) for x in range(points))


@pytest.mark.parametrize("points", [3, 4, 5])
def test_lattice_laplace_end_points_dominate_exactly(points):
    """The functional at (first, last) is above that of every pair, and above every true delta."""
    R = geometric_matrix(points, F(3, 2))
    assert all(sum(row) == 1 for row in R)
    ts = (F(1, 5), F(4, 5), F(1), F(5, 4), F(2))
    for n in (1, 2, 3):
        truth = worst_delta(R, n, ts)
        for t in ts:
            top = functional(blanket_atoms(R, 0, points - 1), n, t)
            assert truth[t] <= top
            for x0, x1 in product(range(points), repeat=2):
                assert functional(blanket_atoms(R, x0, x1), n, t) <= top


def test_functional_falls_with_overlap():
    """Hash and cap randomizers: the functional falls when the two high sets overlap more."""
    E, n = F(4), 4
    for t in (F(1, 3), F(1), F(2)):
        values = []
        for shared in (F(0), F(1, 40), F(1, 20)):
            alone = F(1, 10) - shared
            none = 1 - E * F(1, 10) - alone
            atoms = ((E, E, shared), (E, F(1), alone), (F(1), E, alone), (F(1), F(1), none))
            assert sum(a * m for a, _, m in atoms) == 1
            values.append(functional(atoms, n, t))
        assert values[0] >= values[1] >= values[2]
        assert values[0] > values[2] or t < F(1, 2)


def test_one_bit_functional_is_largest_at_end_points():
    """One-bit reports of a number in [0, 1]: inputs in between are mixtures of the ends."""
    E, n, t = F(3), 4, F(3, 2)

    def row(x: F) -> tuple[F, F]:
        one = (1 + x * (E - 1)) / (E + 1)
        return (1 - one, one)

    R = tuple(row(F(x, 4)) for x in range(5))
    blanket = [min(column) for column in zip(*R, strict=True)]
    top = functional(atoms_under(R, 0, 4, blanket), n, t)
    for x0, x1 in product(range(5), repeat=2):
        assert functional(atoms_under(R, x0, x1, blanket), n, t) <= top


# The laws that the noise randomizers state of themselves


def _functional_of_few(law, n, t):
    """(1/n) E[(G_1 + … + G_n)₊] + escaped for one or two people, over all pairs of atoms."""
    value = np.append(law.a - t * law.b, 0.0)
    mass = np.append(law.mass, max(0.0, 1 - law.mass.sum()))
    if n == 1:
        return float(np.maximum(value, 0) @ mass) + law.escaped
    return float(mass @ np.maximum(value[:, None] + value, 0) @ mass) / 2 + law.escaped


def _binned(cumulative, edges) -> np.ndarray:
    """Output laws of the inputs 0, 0.1, …, 1 when only the bin of a report is seen.

    Binning is post-processing, so a δ computed from the bins is at most the true one.
    """
    return np.array([np.diff(cumulative(edges - x)) for x in np.linspace(0, 1, 11)])


def _laplace_cumulative(epsilon):
    def cumulative(u):
        half = np.exp(-epsilon * np.abs(u)) / 2
        return np.where(u < 0, half, 1 - half)

    return cumulative


def _two_people(rows, t):
    """The largest δ at t over the victim's two values and the value of one other person."""
    worst = 0.0
    for other in rows:
        both = [np.outer(row, other) + np.outer(other, row) for row in rows]
        for x0, x1 in product(range(len(rows)), repeat=2):
            worst = max(worst, float(np.maximum(both[x0] - t * both[x1], 0).sum()) / 2)
    return worst


NOISES = [
    (Laplace(epsilon=1.0), _laplace_cumulative(1.0), 8.0),
    (Laplace(epsilon=3.0), _laplace_cumulative(3.0), 4.0),
    (Gaussian(epsilon=1.0, delta=0.05), None, 5.0),
    (Gaussian(epsilon=3.0, delta=0.05), None, 4.0),
]


@pytest.mark.parametrize(("noise", "cumulative", "reach"), NOISES, ids=["l1", "l3", "g1", "g3"])
def test_noise_bound_never_below_enumeration_of_two_people(noise, cumulative, reach):
    if cumulative is None:
        cumulative = lambda u: ndtr(u / noise.sigma)  # noqa: E731
    edges = np.concatenate([[-np.inf], np.linspace(0.5 - reach, 0.5 + reach, 72), [np.inf]])
    rows = _binned(cumulative, edges)
    law = noise.blanket()
    shares = []
    for epsilon in (-0.4 * noise.epsilon, 0.0, 0.3 * noise.epsilon, 0.7 * noise.epsilon):
        truth = _two_people(rows, np.exp(epsilon))
        upper = _functional_of_few(law, 2, np.exp(epsilon))
        assert truth <= upper * (1 + 1e-12)
        shares.append(truth / upper)
    assert max(shares[1:]) > 0.85  # close to the truth; one person, below, is where it is tight


@pytest.mark.parametrize("noise", [each[0] for each in NOISES], ids=["l1", "l3", "g1", "g3"])
@pytest.mark.parametrize("share", [-0.5, 0.0, 0.4, 0.8])
def test_noise_functional_of_one_person_equals_local_curve(noise, share):
    """For n = 1 the functional is the divergence of R_0 and R_1, known in closed form."""
    epsilon = share * noise.epsilon
    found = _functional_of_few(noise.blanket(), 1, np.exp(epsilon))
    if isinstance(noise, Laplace):
        exact = 1 - np.exp((epsilon - noise.epsilon) / 2)
    else:
        s = noise.sigma
        exact = ndtr(0.5 / s - epsilon * s) - np.exp(epsilon) * ndtr(-0.5 / s - epsilon * s)
    assert exact * (1 - 1e-12) <= found <= exact * 1.001
