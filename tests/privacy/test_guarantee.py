"""Guarantees compose only against the same view, the same colluders and the same neighbours."""

import pytest

from incrowd.errors import InvalidParameter
from incrowd.graphs import from_edges
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.trusted_shuffle import TrustedShuffle
from incrowd.randomizers import RR

DELTA = 0.05


@pytest.fixture(scope="module")
def walk():
    """A star around person 0, and one more person behind leaf 1."""
    edges = [*((0, leaf) for leaf in range(1, 11)), (1, 11)]
    graph = from_edges(*zip(*edges, strict=True), n=12)
    return NetworkShuffle(RR(epsilon=1.0), graph=graph, rounds=40, laziness=0.3)


def test_compose_with_equal_colluders_keeps_them(walk):
    hub = walk.guarantee("curator", [0])
    both = hub.compose(walk.guarantee("curator", [0]))
    assert both.coalition == hub.coalition == {0}
    assert both.epsilon(DELTA) == pytest.approx(1.9018, abs=5e-5)


def test_compose_refuses_different_colluders(walk):
    """Against person 0 and person 11, one each, nothing is proven by either curve for both."""
    with pytest.raises(InvalidParameter, match=r"different colluders, \[0\] and \[11\]"):
        walk.guarantee("curator", [0]).compose(walk.guarantee("curator", [11]))


def test_compose_of_any_with_named_colluders_keeps_named(walk):
    anyone = TrustedShuffle(RR(epsilon=1.0), n=12).guarantee("curator", 1)
    assert anyone.coalition is None
    both = anyone.compose(walk.guarantee("curator", [3]))
    assert both.coalition == {3}
    with pytest.raises(InvalidParameter, match="different colluders"):
        both.compose(walk.guarantee("curator", [0]))
    assert anyone.compose(anyone).coalition is None


def test_colluders_drawn_by_number_are_a_named_coalition(walk):
    """A number of colluders of a walk stands for one drawn set, not for any such set."""
    drawn = walk.guarantee("curator", 2)
    assert drawn.colluders == len(drawn.coalition or ()) == 2
    assert drawn.compose(walk.guarantee("curator", 2)).coalition == drawn.coalition
    assert walk.guarantee("curator").coalition is None
