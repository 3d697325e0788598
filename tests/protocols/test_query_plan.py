"""Execution plans: what is derived from their shape, what is refused, and how they are shown."""

import math
from xml.etree import ElementTree

import pytest

from incrowd.errors import InvalidParameter, NotProven
from incrowd.privacy.greatest import GreatestProfile
from incrowd.privacy.least import LeastProfile
from incrowd.privacy.pure import PureProfile
from incrowd.protocols.scrambled_query.plan.dependency import charges
from incrowd.protocols.scrambled_query.plan.model import (
    OWN,
    Cluster,
    Plan,
    Stage,
    aggregate,
    kmeans,
)
from incrowd.protocols.scrambled_query.theorems.group_privacy import (
    GroupProfile,
    TogetherProfile,
)
from incrowd.protocols.scrambled_query.theorems.mechanisms import (
    Flooding,
    Scrambler,
    SomeScrambler,
)
from incrowd.randomizers import KRR

MIX = Scrambler(4, 0.5, 50, 20)
PEOPLE, MIXER = Stage("people", "source", 100), Stage("mixers", "scrambler", 2)
COMPUTE, RESULT = Stage("compute", "compute", 4), Stage("result", "result")
SENT = Cluster("sent", "people", "compute", MIX, through="mixers")
OUT = Cluster("out", "compute", "result")
SIMPLE = Plan((PEOPLE, MIXER, COMPUTE, RESULT), (SENT, OUT))


def charged(plan, people="people", **view):
    return [(each.name, each.means, each.changes) for each in charges(plan, people, **view)]


# What is derived


def test_plan_of_one_cluster_equals_routing_profile():
    profile = SIMPLE.profile()
    for delta in (1e-3, 1e-6, 1e-200):
        assert profile.epsilon(delta) == MIX.profile().epsilon(delta)
    assert profile.delta(0.7) == MIX.profile().delta(0.7)
    assert profile.lower(1e-6) == MIX.profile().lower(1e-6)
    assert SIMPLE.theorem == MIX.theorem
    assert charged(SIMPLE) == [("sent", "mixing", 1)]


def test_aggregate_equals_plan_written_out():
    assert aggregate([MIX], 100).profile() == SIMPLE.profile()


def test_colluders_reduce_mixed_sources():
    found = aggregate([MIX], 100).profile(colluders=10)
    assert found.epsilon(1e-6) == MIX.profile(10).epsilon(1e-6)
    assert found.epsilon(1e-6) > SIMPLE.profile().epsilon(1e-6)


def test_cluster_with_one_target_costs_nothing():
    plan = aggregate([Scrambler(1, 0.5, 50, 0)], 100)
    assert charged(plan) == []
    assert plan.profile().epsilon(1e-9) == 0
    assert plan.profile().delta(0.0) == 0
    assert "nothing depends on data" in plan.theorem
    mixed = aggregate([Scrambler(1, 0.5, 50, 0), MIX], 100)
    assert mixed.profile() == SIMPLE.profile()


def test_cluster_with_one_target_costs_release_alone():
    plan = aggregate([Scrambler(1, 0.5, 50, 0)], 100, release_epsilon=0.4)
    assert charged(plan, released=True) == [("compute 1", "noise", 1)]
    assert plan.profile(released=True).greatest_loss == 0.4


def test_release_costs_nothing_while_unseen():
    plan = aggregate([MIX] * 2, 100, release_epsilon=1.0)
    assert charged(plan) == [("set 1", "mixing", 1), ("set 2", "mixing", 1)]
    assert plan.profile() == aggregate([MIX] * 2, 100).profile()


def test_release_when_seen_charges_two_records_or_local_epsilon():
    plan = aggregate([MIX] * 2, 100, release_epsilon=1.0)
    assert charged(plan, released=True) == [
        ("set 1", "mixing", 1),
        ("set 2", "mixing", 1),
        ("compute 1", "noise", 2),
        ("compute 2", "noise", 2),
    ]
    assert charged(plan, released=True, mixed=False) == [
        ("set 1", "lies", 1),
        ("set 2", "lies", 1),
        ("compute 1", "noise", 1),
        ("compute 2", "noise", 1),
    ]
    profile = plan.profile(released=True)
    assert isinstance(profile, LeastProfile)
    delta = 1e-6
    assert profile.epsilon(delta) <= 2 * MIX.profile().epsilon(delta / 2) + 2 * 1.0
    # Far out the lies cost less; their sum is rounded up.
    assert profile.epsilon(1e-200) <= math.nextafter(2 * MIX.local_epsilon + 1.0, math.inf)


def test_release_without_sampling_adds_up():
    still = Scrambler(4, 0.0, 50, 200)
    plan = aggregate([still], 100, release_epsilon=0.5)
    assert charged(plan, released=True) == [("set 1", "mixing", 1), ("compute 1", "noise", 1)]
    both = plan.profile(released=True).epsilon(1e-6)
    assert both <= still.profile().epsilon(1e-6) + 0.5


def test_flooding_pays_for_release_once():
    plan = aggregate([Flooding(4, 0.5, 1)], 100, release_epsilon=0.5)
    assert charged(plan, released=True) == [("set 1", "mixing", 1), ("compute 1", "noise", 1)]
    assert not [each for each in plan.stages if each.kind == "scrambler"]


def test_grouping_sets_of_different_people_do_not_add_up():
    plan = aggregate(
        [MIX, Scrambler(8, 0.3, 50, 20)], 101, release_epsilon=1.0, sets_per_person="one"
    )
    assert [each.nodes for each in plan.stages if each.kind == "source"] == [51, 50]
    assert [each.release for each in plan.stages if each.kind == "compute"] == [1.0, 1.0]
    assert isinstance(plan.profile(), GreatestProfile)
    assert isinstance(aggregate([MIX, MIX], 100, sets_per_person="one").profile(), TogetherProfile)


def test_result_without_noise_is_not_proven():
    with pytest.raises(NotProven, match="result gets tuples of people without noise"):
        SIMPLE.profile(released=True)


def test_kmeans_with_release_composes_rounds():
    plan = kmeans(MIX, 100, iterations=3, release=0.2)
    assert charged(plan) == [
        ("round 1", "mixing", 1),
        ("centroids 1", "noise", 2),
        ("round 2", "mixing", 1),
        ("centroids 2", "noise", 2),
        ("round 3", "mixing", 1),
    ]
    assert charged(plan, released=True)[-1] == ("centroids 3", "noise", 2)
    delta = 1e-5
    rule = 3 * (MIX.profile().epsilon(delta / 3) + 2 * 0.2)
    assert plan.profile(released=True).epsilon(delta) <= rule
    assert plan.profile().epsilon(delta) < plan.profile(released=True).epsilon(delta)


def test_kmeans_without_release_is_group_privacy():
    plan = kmeans(MIX, 100, iterations=3)
    assert charged(plan) == [
        ("round 1", "lies", 1),
        ("round 2", "lies", 100),
        ("round 3", "mixing", 100),
    ]
    loss = plan.profile().greatest_loss
    assert loss == pytest.approx(201 * MIX.local_epsilon)
    assert plan.profile().epsilon(1e-9) > 50
    with pytest.raises(NotProven):
        plan.profile(released=True)
    assert math.isfinite(kmeans(MIX, 60_000, iterations=10).profile().epsilon(1e-9))


def test_cluster_decided_by_earlier_messages_claims_no_attack():
    plan = kmeans(MIX, 100, iterations=3, release=0.2)
    assert plan.profile().lower(1e-5) == MIX.profile().lower(1e-5)


def test_tuple_is_followed_through_simple_stages():
    plan = Plan(
        (
            PEOPLE,
            MIXER,
            COMPUTE,
            Stage("relay", "simple", 4),
            Stage("last", "compute", 3),
            Stage("late mixers", "scrambler", 1),
        ),
        (
            SENT,
            Cluster("passed", "compute", "relay"),
            Cluster("again", "relay", "last", Scrambler(3, 0.5, 4, 5), ("passed",), "late mixers"),
        ),
    )
    assert charged(plan) == [("sent", "lies", 1), ("again", "mixing", 1)]


def test_noise_on_the_way_stops_dependency():
    # It would be open whether what it hears decides where it sends, or what it releases.
    with pytest.raises(InvalidParameter, match="let the stage after it decide"):
        Plan(
            (
                PEOPLE,
                MIXER,
                Stage("compute", "compute", 4, release=0.3),
                Stage("last", "simple", 3),
            ),
            (SENT, Cluster("again", "compute", "last", Flooding(3, 0.5, 0), ("sent",))),
        )
    told = Plan(
        (
            PEOPLE,
            MIXER,
            Stage("compute", "compute", 4, release=0.3),
            Stage("relay", "simple", 4),
            Stage("last", "simple", 3),
        ),
        (
            SENT,
            Cluster("told", "compute", "relay"),
            Cluster("again", "relay", "last", Flooding(3, 0.5, 0), ("told",)),
        ),
    )
    assert charged(told) == [("sent", "mixing", 1), ("compute", "noise", 2)]


def test_different_people_are_charged_separately():
    plan = Plan(
        (
            PEOPLE,
            Stage("others", "source", 40),
            MIXER,
            COMPUTE,
            Stage("later", "simple", 4),
        ),
        (
            SENT,
            Cluster("fixed", "others", "compute"),
            Cluster("again", "compute", "later", MIX, ("sent",)),
        ),
    )
    assert charged(plan) == [("sent", "lies", 1), ("again", "mixing", 1)]
    assert charged(plan, "others") == []


def test_group_privacy_of_thousand_people_is_fast():
    plan = kmeans(MIX, 1000, iterations=2)
    assert 1000 < plan.profile().epsilon(1e-9) <= 1001 * MIX.local_epsilon


def test_plan_accepts_scrambler_of_any_randomizer():
    some = SomeScrambler(KRR(categories=4, epsilon=2.0), 200, 0)
    plan = aggregate([some] * 2, 400, release_epsilon=0.5)
    assert charged(plan, released=True)[-1] == ("compute 2", "noise", 2)
    assert plan.profile().epsilon(1e-4) < 2 * some.profile().epsilon(5e-5)


# Curves


def test_together_profile_adds_pure_parts_exactly():
    both = TogetherProfile(((PureProfile(0.5), 1), (MIX.profile(), 1)))
    assert both.epsilon(1e-250) <= (0.5 + MIX.profile().epsilon(1e-250)) * (1 + 1e-9)
    assert both.delta(0.4) <= 1
    assert both.delta(both.greatest_loss) == 0
    for delta in (1e-3, 1e-6):
        assert both.delta(both.epsilon(delta)) <= delta * (1 + 1e-6)


def test_group_profile_of_size_one_equals_base():
    one, same = MIX.profile(), GroupProfile(MIX.profile(), 1)
    for epsilon in (-0.5, 0.0, 0.4, 1.0):
        assert same.delta(epsilon) == pytest.approx(one.delta(epsilon), rel=1e-9)
    assert same.epsilon(1e-5) == pytest.approx(one.epsilon(1e-5), rel=1e-6)
    assert one.epsilon(1e-5) <= same.epsilon(1e-5)


def test_group_profile_epsilon_grows_with_size():
    sizes = [GroupProfile(MIX.profile(), size).epsilon(1e-4) for size in (1, 2, 4, 8)]
    assert sizes == sorted(sizes)
    assert sizes[1] > 2 * sizes[0]
    assert sizes[-1] <= 8 * MIX.local_epsilon


# What is refused


@pytest.mark.parametrize(
    ("stages", "clusters", "words"),
    [
        ((PEOPLE, COMPUTE), (Cluster("a", "people", "computer"),), "did you mean compute?"),
        ((PEOPLE, PEOPLE), (), "two stages called 'people'"),
        ((PEOPLE, COMPUTE, RESULT), (OUT, OUT), "two clusters called 'out'"),
        ((PEOPLE, RESULT), (Cluster("a", "result", "people"),), "a result, which sends nothing"),
        ((PEOPLE, MIXER), (Cluster("a", "people", "mixers"),), "name it with through"),
        ((PEOPLE, COMPUTE), (Cluster("a", "people", "compute", MIX, through="compute"),), "no scr"),
        ((COMPUTE, RESULT), (OUT,), "a plan needs a source"),
        (
            (PEOPLE, COMPUTE),
            (Cluster("a", "people", "compute"), Cluster("b", "compute", "people")),
            "in a circle among compute, people: give each round",
        ),
        ((PEOPLE, COMPUTE), (Cluster("a", "people", "people"),), "in a circle among people"),
        (
            (PEOPLE, COMPUTE, RESULT),
            (Cluster("a", "people", "compute", Scrambler(5, 0.5, 50, 0)),),
            "its routing is for 5 targets, but compute has 4",
        ),
        (
            (PEOPLE, COMPUTE, Stage("mixers", "scrambler", 1)),
            (SENT,),
            "1 scramblers of 50 sources each are too few for the 100",
        ),
        (
            (PEOPLE, COMPUTE, Stage("next", "compute", 4)),
            (Cluster("a", "compute", "next", MIX),),
            "compute has no tuple of its own",
        ),
        (
            (PEOPLE, COMPUTE, Stage("next", "compute", 4)),
            (Cluster("a", "compute", "next", MIX, ("sent",)),),
            "'sent' does not arrive at compute and cannot decide: nothing arrives there",
        ),
        ((PEOPLE, COMPUTE), (Cluster("a", "people", "compute", MIX, ()),), "say what"),
        (
            (PEOPLE, COMPUTE),
            (Cluster("a", "people", "compute", MIX, everyone=True),),
            "needs no routing",
        ),
        ((PEOPLE, Stage(OWN, "compute")), (), "cannot be the name of a stage"),
        ((PEOPLE, Stage(" ", "compute")), (), "every stage needs a name"),
    ],
)
def test_plan_rejects_invalid_parts_in_one_line(stages, clusters, words):
    with pytest.raises(InvalidParameter, match=words.replace("?", r"\?")) as told:
        Plan(stages, clusters)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Stage("a", "sorce"), "did you mean source"),
        (lambda: Stage("a", "compute", 0), "nodes of a must be a whole number ≥ 1"),
        (lambda: Stage("a", "compute", people="b"), "only sources hold tuples"),
        (lambda: Stage("a", "source", release=1.0), "only compute nodes release"),
        (lambda: Stage("a", "compute", release=-1.0), "must not be negative"),
        (lambda: aggregate([], 10), "at least one grouping set"),
        (lambda: aggregate([MIX], 10, sets_per_person="some"), "sets_per_person must be one of"),
        (lambda: kmeans(MIX, 10, iterations=0), "iterations must be"),
        (
            lambda: kmeans(SomeScrambler(KRR(categories=3, epsilon=1.0), 5, 0), 10, iterations=1),
            "needs targets",
        ),
    ],
)
def test_stage_rejects_invalid_settings(make, words):
    with pytest.raises(InvalidParameter, match=words):
        make()


# How it is shown

SHOWN = [
    SIMPLE,
    aggregate([MIX, Scrambler(1, 0.0, 50, 0), Flooding(6, 0.3, 2)], 12_345, release_epsilon=0.3),
    aggregate([MIX] * 3, 300, sets_per_person="one"),
    kmeans(MIX, 60_000, iterations=10, release=0.1),
    kmeans(MIX, 60_000, iterations=2),
]


@pytest.mark.parametrize("plan", SHOWN)
def test_text_fits_terminal_and_names_all_parts(plan):
    text = plan.text()
    assert max(map(len, text.splitlines())) <= 100
    for each in (*plan.stages, *plan.clusters):
        assert each.name in " ".join(text.split()).replace("│ ", "")


@pytest.mark.parametrize("plan", SHOWN)
def test_svg_is_well_formed_and_within_frame(plan):
    root = ElementTree.fromstring(plan.svg())
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    space = "{http://www.w3.org/2000/svg}"
    boxes = root.findall(f"{space}g/{space}rect")
    assert len(boxes) == len(plan.stages)
    for box in boxes:
        assert float(box.attrib["x"]) + float(box.attrib["width"]) <= width
        assert float(box.attrib["y"]) + float(box.attrib["height"]) <= height
    places = [(box.attrib["x"], box.attrib["y"]) for box in boxes]
    assert len(set(places)) == len(places)


def test_svg_escapes_names():
    plan = Plan((Stage("<b>&", "source", 2), RESULT), (Cluster('"', "<b>&", "result"),))
    ElementTree.fromstring(plan.svg())


@pytest.mark.parametrize("plan", SHOWN)
def test_explanation_names_readers_of_tuples(plan):
    lines = plan.explain()
    assert any("in the clear" in line and "nothing is proven" in line for line in lines)
    assert not [line for line in lines if "\n" in line or not line.endswith(".")]


def test_explanation_gives_reasons_for_charges():
    told = " ".join(kmeans(MIX, 500, iterations=2).explain())
    assert "only lies protect it, as who lied shows in what comes later" in told
    assert "up to 500 messages" in told
    told = " ".join(aggregate([MIX], 500, release_epsilon=1.0).explain())
    assert "2 records may change" in told
    told = " ".join(aggregate([MIX] * 2, 500, sets_per_person="one").explain())
    assert "without a look at the data" in told
