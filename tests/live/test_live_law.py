"""A live run and a simulated one are the same experiment: the same law, promises and price."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pytest
from scipy import stats

from incrowd import graphs
from incrowd.live import cells, frames
from incrowd.live.hub.limits import Limits
from incrowd.live.keys import Role
from incrowd.live.options import LiveOptions
from incrowd.live.run import LiveRun, run_live
from incrowd.protocols.api import Protocol
from incrowd.protocols.local.spec import Local
from incrowd.protocols.network_shuffle.spec import NetworkShuffle
from incrowd.protocols.run import guarantees
from incrowd.protocols.runtime.actor import CURATOR
from incrowd.protocols.trusted_shuffle.spec import TrustedShuffle
from incrowd.randomizers import KRR, Ternary
from incrowd.tasks import Histogram, Mean
from tests.live.hub_server import Api, Caller, Deployment, make_poll, running_hub

DELTA = 1e-5
LEVEL = 0.001
"""How likely it is at most that the test of the law fails although the laws agree."""


def _graph(n: int, degree: int) -> graphs.Graph:
    return graphs.random_regular(n, degree, np.random.default_rng(5))


def _happened(protocol: Protocol, run: LiveRun) -> Protocol:
    """The protocol with the rounds that people missed, on a machine that was too busy."""
    collected: Any = run.collected
    if getattr(collected, "away", None) is None:
        return protocol
    return protocol.conditional_on(collected)


@pytest.mark.parametrize(
    "protocol",
    [
        Local(KRR(categories=3, epsilon=1.0), n=12),
        TrustedShuffle(KRR(categories=3, epsilon=1.0), n=12),
        NetworkShuffle(KRR(categories=3, epsilon=1.0), graph=_graph(12, 4), rounds=2),
    ],
    ids=lambda protocol: protocol.kind,
)
def test_promises_and_price_of_a_live_run_are_those_of_a_simulation(
    tmp_path, monkeypatch, protocol
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    values = np.arange(12) % 3
    run = run_live(
        protocol,
        values,
        delta=DELTA,
        hosts=1,
        options=LiveOptions(round_seconds=2.0, grace_rounds=2),
    )
    simulated = protocol.simulate(values, seed=1)
    (reports,), (drawn,) = run.collected.rounds, simulated.collected.rounds
    assert reports.shape == drawn.shape
    assert reports.dtype == drawn.dtype
    assert run.cost == simulated.cost
    promised = guarantees(_happened(protocol, run))
    if run.live.missed_rounds == 0:
        promised = simulated.guarantees
    assert len(run.guarantees) == len(promised)
    for given, due in zip(run.guarantees, promised, strict=True):
        assert given.view == due.view
        assert given.theorem == due.theorem
        assert given.epsilon(DELTA) == due.epsilon(DELTA)
    assert run.live.in_flight + run.live.delivered + run.live.expired > 0
    assert run.live.rejected == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("task", "randomizer", "truth"),
    [
        (Histogram(categories=("1", "2")), KRR(categories=3, epsilon=30.0), [0.25, 0.25, 0.5]),
        (
            Histogram(categories=("1", "2"), outside="other"),
            KRR(categories=4, epsilon=30.0),
            [0.25] * 4,
        ),
        # Every number counts as a bound: one in between would be rounded to either at random.
        (Mean(bounds=(1, 2)), Ternary(epsilon=30.0), [5 / 3, 0.25]),
    ],
    ids=lambda each: getattr(each, "kind", ""),
)
def test_answers_of_a_live_run_are_encoded_as_in_a_simulation(
    tmp_path, monkeypatch, task, randomizer, truth
):
    """Among them none, and ones outside the domain: every device takes part."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    values = np.array([1.0, 2.0, None, 9.0] * 3, object)
    protocol = Local(randomizer, n=12)
    run = run_live(
        protocol, values, task, delta=DELTA, hosts=1, options=LiveOptions(round_seconds=2.0)
    )
    assert run.collected.crowds == (12,)
    assert run.result.value == pytest.approx(truth, abs=1e-9)
    simulated = protocol.simulate(values, task=task, seed=1).result
    assert run.result.labels == simulated.labels
    assert run.result.missing == simulated.missing


def test_a_helper_gets_messages_of_more_cells_than_a_device_may_leave_untaken(tmp_path):
    """Cells are taken when their message is complete, and a shuffler's is as large as a crowd."""
    deployment, count = Deployment(tmp_path), Limits().window + frames.MOST_CELLS
    (curator,) = deployment.parties(1, Role.curator, "curator")
    poll = make_poll(deployment.parties(2), curator)
    with running_hub(deployment) as hub, Api(hub, deployment) as api:
        poll.begin(api)
        with (
            Caller(hub, deployment).greet(poll.people[0]) as sender,
            Caller(hub, deployment).greet(curator) as receiver,
        ):
            to = cells.number(CURATOR)
            sent = [poll.cell(0, to, counter) for counter in range(count)]
            for first in range(0, count, frames.MOST_CELLS):
                assert sender.put(poll, *sent[first : first + frames.MOST_CELLS]) == {}
            receiver.say(frames.Listen(poll.spec.survey))
            assert [cell for _, cell in receiver.mail(count)] == sent


@pytest.mark.slow
def test_live_and_simulated_runs_have_the_same_law():
    """Two-sample Kolmogorov-Smirnov tests of five statistics, at level 0.001 together.

    Three are the estimates. Two are of where reports end up: the most that one person hands in, and
    how many hand in nothing. All are discrete, which makes the tests more cautious than they say.
    """
    people, runs = 60, 30
    protocol = NetworkShuffle(KRR(categories=3, epsilon=1.0), graph=_graph(people, 6), rounds=6)
    values = np.repeat([0, 1, 2], [30, 20, 10])

    def statistics(collected: Any) -> list[float]:
        (reports,) = collected.rounds
        assert len(reports) == people
        estimate = protocol.randomizer.estimate(reports).value
        return [*estimate, collected.load.max(), (collected.load == 0).sum()]

    live = [
        statistics(
            run_live(
                protocol,
                values,
                delta=DELTA,
                options=LiveOptions(round_seconds=0.5, grace_rounds=4),
            ).collected
        )
        for _ in range(runs)
    ]
    simulated = [
        statistics(protocol.simulate(values, seed=seed).collected) for seed in range(100 * runs)
    ]
    for one, other in zip(np.transpose(live), np.transpose(simulated), strict=True):
        assert stats.ks_2samp(one, other).pvalue > LEVEL / 5
