"""The shape that all seven protocols share, and one suite for each capability."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest
from contract import DELTA, throw_at

from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.graphs import complete
from incrowd.live.accounting import CELLS
from incrowd.protocols import PROTOCOLS, capabilities, load
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import (
    Anytime,
    Attested,
    Coverable,
    Drawable,
    Exposable,
    OnGraph,
    OrderPrivate,
    Plannable,
    Routed,
    SampleCorrected,
    TaskBound,
    Tunable,
    contacts_of,
    guarantee_against_any,
    planned,
)
from incrowd.protocols.check_in import CheckIn
from incrowd.protocols.local import Local
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.order_shuffle import OrderShuffle, groupings
from incrowd.protocols.registry import build
from incrowd.protocols.run import guarantees, make_actors, resolve_task
from incrowd.protocols.runtime.actor import CURATOR, Message, device, devices
from incrowd.protocols.runtime.context import Connections, Timing
from incrowd.protocols.settings import public_settings, settings_of
from incrowd.protocols.token_walk import TokenWalk
from incrowd.protocols.trusted_shuffle import TrustedShuffle
from incrowd.randomizers import KRR
from incrowd.randomness import Seeds
from incrowd.sim import Faults, run
from tests.sim.query_played import own as own_query

N = 12
COIN = KRR(categories=3, epsilon=1.0)
PAIRS = groupings.from_labels([[f"pair {person // 2}"] for person in range(N)])

BUILT: dict[str, Protocol] = {
    "local": Local(COIN, n=N, rounds=2),
    "trusted-shuffle": TrustedShuffle(COIN, n=N, rounds=2),
    "check-in": CheckIn(COIN, n=N, rate=0.5, rounds=3),
    "network-shuffle": NetworkShuffle(COIN, graph=complete(N), rounds=3),
    "order-shuffle": OrderShuffle(COIN, groups=PAIRS, alpha=1.0),
    "token-walk": TokenWalk(COIN, n=N, steps=30),
    "scrambled-query": own_query(N),
}


def raw_of(protocol):
    if protocol.kind == "scrambled-query":
        return protocol.asked.rows([(str(each),) for each in range(N)])
    return np.arange(N) % 3


def values_of(protocol):
    return resolve_task(protocol, None).encode(raw_of(protocol))


def able(capability):
    found = [protocol for protocol in BUILT.values() if isinstance(protocol, capability)]
    return pytest.mark.parametrize("protocol", found, ids=lambda each: each.kind)


every = pytest.mark.parametrize("protocol", BUILT.values(), ids=BUILT)


def test_protocols_built_here_are_all_that_are_registered():
    assert set(BUILT) == set(PROTOCOLS)
    assert all(type(each) is load(kind) for kind, each in BUILT.items())


MEMBERS = {
    "kind", "collected_type", "randomizer", "n", "views", "helpers", "guarantee", "cost", "collect",
    "actor", "duration", "subset", "conditional_on", "diagnostics", "simulate",
}  # fmt: skip


def test_interface_has_fifteen_members():
    named = {*vars(Protocol), *Protocol.__annotations__}
    assert {each for each in named if not each.startswith("_")} == MEMBERS
    assert len(MEMBERS) == 15


def test_protocol_fields_are_assigned_in_one_place():
    """A protocol is copied by replace: only the base fills in fields, after their checks."""
    bases = {
        base for kind in PROTOCOLS for base in load(kind).__mro__ if issubclass(base, Protocol)
    }
    places = [base for base in bases if "__setattr__" in inspect.getsource(base)]
    assert places == [Protocol]
    assert inspect.getsource(Protocol).count("__setattr__") == 1


@pytest.mark.parametrize("kind", ["local", "trusted-shuffle", "check-in", "token-walk"])
def test_settings_and_randomizer_make_the_same_protocol_again(kind):
    protocol = BUILT[kind]
    again = build(kind, settings_of(protocol), protocol.randomizer)
    assert settings_of(again) == settings_of(protocol)
    assert again.cost() == protocol.cost()


def test_members_are_overridden_by_more_than_one_protocol():
    """What a single protocol does differently is a capability."""
    classes = [load(kind) for kind in PROTOCOLS]
    for name in vars(Protocol):
        if name.startswith("_"):
            continue
        value = vars(Protocol)[name]
        if not callable(value) and not isinstance(value, property | classmethod):
            continue
        changed = [each for each in classes if _defined(each, name)]
        assert len(changed) != 1, (name, changed)


def _defined(kind, name):
    mro = kind.__mro__[: kind.__mro__.index(Protocol)]
    return any(name in vars(each) for each in mro)


def test_capabilities_are_each_had_by_a_protocol():
    mixins = [
        each
        for _, each in inspect.getmembers(capabilities, inspect.isclass)
        if inspect.isabstract(each) and each.__module__ == capabilities.__name__
    ]
    assert len(mixins) > 10
    for mixin in mixins:
        assert any(isinstance(protocol, mixin) for protocol in BUILT.values()), mixin


# Description: all seven.


@every
def test_description_states_guarantees_cost_and_parties(protocol):
    assert protocol.kind in PROTOCOLS
    assert protocol.helpers[-1] == CURATOR
    assert protocol.duration(Timing()) > 0
    cost = protocol.cost()
    assert cost.messages_per_person > 0
    assert cost.bytes_per_person > 0
    for guarantee in guarantees(protocol):
        if guarantee.notion == "dp":
            assert guarantee.epsilon(DELTA) >= 0
        assert guarantee.theorem
        assert guarantee.assumptions is not None


@every
def test_description_of_views_is_proven(protocol):
    for view in protocol.views:
        assert protocol.guarantee(view).epsilon(DELTA) >= 0


@every
def test_subset_of_people_is_a_smaller_crowd_and_never_better_hidden(protocol):
    few = protocol.subset(range(0, N, 2))
    assert few.n == N // 2
    view = protocol.views[0]
    assert few.guarantee(view).epsilon(DELTA) >= protocol.guarantee(view).epsilon(DELTA) * (
        1 - 1e-9
    )


@every
def test_run_without_faults_states_what_was_planned(protocol):
    played = run(protocol, raw_of(protocol), seed=1)
    happened = protocol.conditional_on(played.collected)
    assert played.cost == happened.cost()
    assert isinstance(played.collected, protocol.collected_type)
    for stated, due in zip(played.guarantees, guarantees(happened), strict=True):
        assert (stated.view, stated.theorem) == (due.view, due.theorem)


@every
def test_same_seed_repeats_a_run_and_another_does_not(protocol):
    values = raw_of(protocol)
    first, again = (protocol.simulate(values, seed=4) for _ in range(2))
    assert repr(first.result) == repr(again.result)
    assert np.array_equal(first.result.value, again.result.value, equal_nan=True)


# Delivery: all seven.


def _cast(protocol):
    return make_actors(protocol, values_of(protocol), Seeds(3))


@every
def test_malformed_bytes_change_no_state(protocol):
    cast = _cast(protocol)
    for address in (device(0), *protocol.helpers):
        actor = cast[address]()
        actor.start(0.0)
        before = actor.state()
        throw_at(actor, [*cast, "stranger", ""])
        assert actor.receive(Message(device(1), bytes(1 << 16)), 0.5) == []
        assert actor.state() == before, address


@every
def test_state_survives_a_round_trip(protocol):
    cast = _cast(protocol)
    for address in (device(0), *protocol.helpers):
        actor, copy = cast[address](), cast[address]()
        actor.start(0.0)
        copy.resume(actor.state())
        assert copy.state() == actor.state(), address


@every
def test_loss_and_crashes_end_with_an_answer(protocol):
    faults = Faults(loss=0.2, duplicate=0.2, crash=0.1)
    played = run(protocol, raw_of(protocol), faults=faults, seed=2)
    assert played.collected.received > 0
    assert played.guarantees


# One suite for each capability.


@able(Coverable)
def test_cover_makes_the_hub_no_better_than_the_curator(protocol):
    covered = protocol.covered(DELTA, CELLS)
    plan = covered.cover
    assert covered.cover is plan
    assert protocol.cover is None
    alone, helped = (covered.guarantee(view).epsilon(DELTA) for view in ("curator", "curator+hub"))
    assert helped == pytest.approx(alone, rel=0.01)


@able(OnGraph)
def test_graph_has_a_vertex_for_everyone(protocol):
    assert protocol.graph is None or protocol.graph.n == N


@able(Routed)
def test_contacts_are_parties_of_the_run(protocol):
    parties = {*devices(N), *protocol.helpers}
    for person in range(N):
        assert parties.issuperset(protocol.contacts(person))
        assert device(person) not in protocol.contacts(person)


@every
def test_contacts_of_any_protocol_are_not_empty(protocol):
    assert contacts_of(protocol, 0)


@able(TaskBound)
def test_binding_to_the_default_task_changes_nothing_twice(protocol):
    task = resolve_task(protocol, None)
    bound = protocol.bound_to(task)
    assert bound.bound_to(task).guarantee(protocol.views[0]).epsilon(DELTA) == bound.guarantee(
        protocol.views[0]
    ).epsilon(DELTA)


@able(Anytime)
def test_fewer_rounds_cost_less(protocol):
    assert protocol.with_rounds(1).guarantee().epsilon(DELTA) < protocol.guarantee().epsilon(DELTA)


@able(Attested)
def test_record_without_gaps_changes_no_collection(protocol):
    collected = protocol.collect(values_of(protocol), Seeds(1))
    told = protocol.attested(collected, Connections({}), Timing())
    assert told.received == collected.received
    assert protocol.absence_message


@able(SampleCorrected)
def test_correction_keeps_the_reports(protocol):
    collected = protocol.collect(values_of(protocol), Seeds(1))
    assert np.array_equal(protocol.corrected(collected).pooled(), collected.pooled())


@able(Exposable)
def test_any_colluders_are_at_least_as_bad_as_drawn_ones(protocol):
    drawn = protocol.guarantee("curator", 1).epsilon(DELTA)
    assert guarantee_against_any(protocol, "curator", 1).epsilon(DELTA) >= drawn


@able(Plannable)
def test_planning_twice_is_planning_once(protocol):
    once = planned(protocol, DELTA)
    assert settings_of(planned(once, DELTA)) == settings_of(once)


@able(Drawable)
def test_drawing_is_a_picture_and_words(protocol):
    drawn = protocol.drawing()
    assert drawn.svg.startswith("<svg")
    assert drawn.text
    assert drawn.told


@able(OrderPrivate)
def test_order_guarantee_is_among_those_stated(protocol):
    assert any(each.notion == "order" for each in guarantees(protocol))
    assert protocol.order_guarantee() is not None


@able(Tunable)
def test_limits_have_fields(protocol):
    assert protocol.limits_type.__struct_fields__


# Copies state their own settings, and facts of a run do not outlive it.


def test_lazier_copy_of_walk_is_accounted_as_lazier():
    walk = BUILT["network-shuffle"]
    lazy = replace(walk, laziness=0.9)
    again = NetworkShuffle(COIN, graph=complete(N), rounds=3, laziness=0.9)
    assert lazy.guarantee().epsilon(DELTA) == again.guarantee().epsilon(DELTA)
    assert lazy.guarantee().epsilon(DELTA) > walk.guarantee().epsilon(DELTA)


def test_check_in_with_more_rounds_forgets_counted_reports():
    plan = CheckIn(COIN, n=300, rate=0.2, rounds=2, dummies=False)
    collected = plan.simulate(np.arange(300) % 3, seed=1).collected
    longer = plan.conditional_on(collected).with_rounds(20)
    assert longer == replace(plan, rounds=20)


def test_offer_of_token_walk_is_about_every_pair():
    plan = TokenWalk(
        sigma=2.0, topology="graph", graph=complete(N), steps=30, cap=4, pair=(0, N - 1)
    )
    assert public_settings(plan).pair is None
    assert settings_of(plan) != public_settings(plan)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"groups": PAIRS}, "give only one"),
        ({"radius": 1.5}, "whole number of steps"),
        ({"method": "hilbert"}, "method hilbert needs"),
    ],
)
def test_order_shuffle_on_graph_refuses_settings_for_other_places(wrong, match):
    with pytest.raises(InvalidParameter, match=match):
        OrderShuffle(COIN, graph=complete(N), alpha=1.0, **wrong)


def test_order_shuffle_of_unknown_crowd_cannot_be_played():
    with pytest.raises(InvalidCrowd, match="set n"):
        make_actors(OrderShuffle(COIN, alpha=1.0, radius=1.0), np.zeros(5, int), Seeds(1))
