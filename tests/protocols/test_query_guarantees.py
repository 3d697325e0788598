"""What a scrambled query guarantees to whom, and what it must not."""

import math

import pytest

from incrowd.errors import InvalidParameter, NotProven
from incrowd.protocols.run import guarantees
from incrowd.protocols.scrambled_query import ScrambledQuery
from incrowd.protocols.scrambled_query.plan.model import Cluster, Plan, Stage
from incrowd.protocols.scrambled_query.theorems.exact import ScramblerProfile
from incrowd.protocols.scrambled_query.theorems.mechanisms import SomeScrambler
from incrowd.randomizers import KRR, Generic, Redirect
from incrowd.tasks.query import Column, Query

DELTA = 1e-4
COLUMNS = (
    Column(name="g", type="category", values=("a", "b", "c")),
    Column(name="x", type="integer", low=0, high=100),
)


def asking(sql="SELECT g, COUNT(*) FROM t GROUP BY g", columns=COLUMNS, **settings):
    query = Query(sql=sql, table="t", columns=columns)
    settings = {"targets": 3, "sources": 50, "dummies": 60, "n": 100} | settings
    return ScrambledQuery(query=query, **settings)


def test_scrambler_of_generic_randomizer_with_dummies_is_not_proven():
    """Blankets of many outcomes spread dummies thinner than the worst binary law says."""
    with pytest.raises(NotProven, match="blanket"):
        SomeScrambler(Generic(epsilon=5.0), 100, 300).profile()
    # k-ary response, which is such a randomizer, reveals what the exact attack attains.
    sampling = 40 / (math.exp(5.0) + 39)
    attained = ScramblerProfile(40, sampling, 100, 300).lower(1e-6)
    proven = SomeScrambler(KRR(categories=40, epsilon=5.0), 100, 300).profile().epsilon(1e-6)
    assert 2.0 < attained <= proven
    # Without dummies a generic one is covered, as in any shuffled crowd.
    assert SomeScrambler(Generic(epsilon=1.0), 1000, 0).profile().epsilon(1e-6) < 1


def test_curator_view_in_local_mode_equals_observer_view():
    local = asking(
        hiding="local", sources=0, dummies=1, redirect_probability=0.5, release_epsilon=0.5
    )
    both = local.guarantee("curator+network").epsilon(DELTA)
    assert local.guarantee("curator").epsilon(DELTA) == both > 0.5
    mixed = asking(redirect_probability=0.5, release_epsilon=0.5)
    assert mixed.guarantee("curator").epsilon(DELTA) == 0.5


def test_guarantee_rejects_unprotected_views():
    plain = asking()
    for view in ("everyone", "peer", "network+scrambler", "curator", "curator+network"):
        with pytest.raises(NotProven):
            plain.guarantee(view)
    assert [each.view_name for each in guarantees(plain)] == ["network"]
    assert plain.guarantee("hub").epsilon(DELTA) == plain.guarantee("network").epsilon(DELTA)


def test_guarantee_against_scramblers_rests_on_sampling():
    lying = asking(redirect_probability=0.5)
    alone = Redirect(targets=3, redirect_probability=0.5).epsilon
    assert lying.guarantee("network+scrambler").epsilon(DELTA) == alone
    assert lying.guarantee("network").epsilon(DELTA) < alone


def test_groups_below_capacity_hold_more_dummies():
    """601 people behind scramblers of 600 are 301 and 300, and dummies."""
    found = ScrambledQuery(targets=20, redirect_probability=0.1, sources=600, dummies=0, n=601)
    same = ScramblerProfile(20, 0.1, 301, 299)
    guarantee = found.guarantee("network")
    assert guarantee.epsilon(DELTA) == same.epsilon(DELTA) < 1.2
    assert guarantee.lower(DELTA) <= guarantee.epsilon(DELTA)


def test_guarantee_assumes_colluders_up_to_group_size():
    crowd = ScrambledQuery(targets=20, redirect_probability=0.1, sources=600, dummies=300, n=6000)
    alone = ScramblerProfile(20, 0.1, 1, 300).epsilon(DELTA)
    for colluders in (599, 700, 5999):
        assert crowd.guarantee("network", colluders).epsilon(DELTA) == alone


def test_lower_bound_is_none_where_condition_names_groups():
    narrowed = asking("SELECT g, COUNT(*) FROM t WHERE g = 'a' GROUP BY g")
    assert narrowed.guarantee("network").lower(DELTA) is None
    other = asking("SELECT g, COUNT(*) FROM t WHERE x < 50 GROUP BY g")
    assert other.guarantee("network").lower(DELTA) > 0


def test_sum_overflow_is_rejected_by_bounds_not_data():
    wide = (COLUMNS[0], Column(name="x", type="integer", low=0, high=2**53))
    sql = "SELECT g, SUM(x) FROM t GROUP BY g"
    with pytest.raises(InvalidParameter, match="declare smaller bounds"):
        asking(sql, wide, n=1100)
    assert asking(sql, n=1100).asked.measures


def test_release_is_charged_at_all_nodes_with_a_copy():
    """Three nodes that all get the tuple, and release it, tell three times as much."""
    plan = Plan(
        stages=(
            Stage("people", "source", 1, people="people"),
            Stage("nodes", "compute", 3, release=1.0),
            Stage("result", "result"),
        ),
        clusters=(
            Cluster("copies", "people", "nodes", decided_by=(), everyone=True),
            Cluster("answers", "nodes", "result", decided_by=()),
        ),
    )
    assert plan.profile(released=True).epsilon(DELTA) == pytest.approx(3.0)


def test_default_task_is_query_of_protocol():
    protocol = asking(n=60, sources=30)
    rows = {"g": ["a", "b", "c"] * 20, "x": [1] * 60}
    run = protocol.simulate(rows, seed=1)
    assert [row.tuples for row in run.result.rows] == [20, 20, 20]
