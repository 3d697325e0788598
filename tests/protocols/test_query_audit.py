"""What an observer sees of real sources and a real scrambler keeps to what is guaranteed.

The actors themselves are played, many times on two neighbouring inputs, and the messages to each
compute node are counted. On half of the plays events are chosen, on the other half their chances
are bounded by Clopper and Pearson: an event whose chance on one input is surely larger than
e^ε times that on the other plus δ(ε) refutes the guarantee. Others all hold one cell, which is
where the bound is tightest, and the person in question one of the two others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, Message, Send, device
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.scrambled_query import ScrambledQuery, messages
from incrowd.tasks.query import Column, Query
from tests.sim.query_played import PARCEL, TIMING

N, TARGETS = 20, 3
QUERY = Query(
    sql="SELECT place, COUNT(*) FROM t GROUP BY place",
    table="t",
    columns=(Column(name="place", type="category", values=("a", "b", "c"), complete=True),),
)
LEVEL = 1e-6
"""The chance that an honest run is found wanting, over all events and directions."""


def protocol(sampling: float, dummies: int, mode: str = "scrambler") -> ScrambledQuery:
    return ScrambledQuery(
        targets=TARGETS,
        redirect_probability=sampling,
        sources=N,
        dummies=dummies,
        n=N,
        hiding=mode,
        query=QUERY,
    )


def observed(
    chosen: ScrambledQuery, place: str, plays: int, seed: int, absent: int = 0
) -> NDArray[np.int64]:
    """The messages to each compute node, per play.

    The first person is at ``place``, all others at a; the last ones may be absent.
    """
    rng = np.random.default_rng(seed)
    values = QUERY.encode(QUERY.rows([(place,), *[("a",)] * (N - 1)]))
    contexts = [
        ActorContext(generator=lambda *_: rng, value=values[person : person + 1], timing=TIMING)
        for person in range(N - absent)
    ]
    helper = ActorContext(generator=lambda *_: rng, timing=TIMING)
    granted = Message(CURATOR, wire.encode(messages.Granted(0)))
    found = np.zeros((plays, TARGETS), np.int64)
    for play in range(plays):
        scrambler = chosen.actor("scrambler/0", helper)
        scrambler.start(0.0)
        for person, context in enumerate(contexts):
            sent = chosen.actor(device(person), context).start(0.0)[0]
            assert isinstance(sent, Send)
            scrambler.receive(Message(device(person), sent.body), 0.0)
        if absent:
            scrambler.wake(TIMING.timeout)
        for effect in scrambler.receive(granted, TIMING.timeout):
            if isinstance(effect, Send):
                target = int(effect.to.rpartition("/")[2])
                found[play, target] = len(PARCEL.decode(effect.body).records)
    return found


def refuted(
    one: NDArray[np.int64], other: NDArray[np.int64], delta: Callable[[float], float]
) -> list[str]:
    """The events that no (ε, δ(ε)) of the guarantee allows, with what was found."""
    grid = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0]
    found = []
    for first, second, name in ((one, other, "there"), (other, one, "elsewhere")):
        half = len(first) // 2
        scores = [each[:, 1] - each[:, 2] for each in (first, second)]
        edges = np.unique(np.concatenate(scores))
        # Large differences speak for the one input, small ones for the other.
        for epsilon in grid:
            for sign in (1, -1):
                learn = [sign * each[:half] for each in scores]
                test = [sign * each[half:] for each in scores]
                gains = [
                    (learn[0] >= edge).mean() - np.exp(epsilon) * (learn[1] >= edge).mean()
                    for edge in sign * edges
                ]
                edge = (sign * edges)[int(np.argmax(gains))]
                share = LEVEL / (2 * len(grid) * 2 * 2)
                low = _limits(test[0] >= edge, share)[0]
                high = _limits(test[1] >= edge, share)[1]
                if low > np.exp(epsilon) * high + delta(epsilon):
                    found.append(f"{name}, ε = {epsilon}: {low:.4f} and {high:.4f}")
    return found


def _limits(happened: NDArray[np.bool_], level: float) -> tuple[float, float]:
    """Clopper and Pearson, each limit wrong with at most this chance."""
    n, k = len(happened), int(happened.sum())
    low = stats.beta.ppf(level, k, n - k + 1) if k else 0.0
    high = stats.beta.isf(level, k + 1, n - k) if k < n else 1.0
    return float(low), float(high)


CASES = [
    (0.1, 60, "scrambler", 0),
    (0.0, 40, "scrambler", 0),
    (0.8, 0, "scrambler", 0),
    (0.1, 60, "scrambler", 6),
    (0.5, 15, "capped", 0),
]
LONG = (100_000, 100_000, 20_000, 20_000, 20_000)
"""In how many plays each of them is audited at length."""


def _audit(sampling: float, dummies: int, mode: str, absent: int, plays: int) -> list[str]:
    chosen = protocol(sampling, dummies, mode)
    guarantee = chosen.guarantee("network")
    inputs = [observed(chosen, place, plays, seed, absent) for seed, place in enumerate("bc")]
    for each in inputs:
        assert (each.sum(axis=1) == N + dummies).all()
    return refuted(*inputs, guarantee.delta)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_audit_finds_no_event_beyond_guarantee(case):
    assert _audit(*CASES[case], LONG[case] // 200) == []


@pytest.mark.slow
@pytest.mark.parametrize("case", range(len(CASES)))
def test_audit_of_hundred_thousand_plays_finds_no_event_beyond_guarantee(case):
    assert _audit(*CASES[case], LONG[case]) == []


@pytest.mark.parametrize(("sampling", "dummies", "plays"), [(0.1, 60, 500), (0.0, 40, 150)])
def test_audit_detects_scrambler_without_dummies(sampling, dummies, plays):
    guarantee = protocol(sampling, dummies).guarantee("network")
    without = protocol(sampling, 0)
    inputs = [observed(without, place, plays, seed) for seed, place in enumerate("bc")]
    assert refuted(*inputs, guarantee.delta)


def test_audit_detects_sources_that_never_redirect():
    guarantee = protocol(0.8, 0).guarantee("network")
    honest = protocol(0.0, 0)
    inputs = [observed(honest, place, 200, seed) for seed, place in enumerate("bc")]
    assert refuted(*inputs, guarantee.delta)


@pytest.mark.slow
def test_audit_detects_third_of_dummies_missing():
    """With a third of the dummies missing, a hundred thousand plays show it."""
    guarantee = protocol(0.0, 40).guarantee("network")
    fewer = protocol(0.0, 27)
    inputs = [observed(fewer, place, 100_000, seed) for seed, place in enumerate("bc")]
    assert refuted(*inputs, guarantee.delta)
