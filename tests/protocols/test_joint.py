"""Several questions at once: an answer to each, and the guarantee of all of them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from incrowd.errors import InvalidParameter
from incrowd.graphs import families
from incrowd.protocols import load
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import bound_to, cover_of, covered
from incrowd.protocols.joint import JointProtocol
from incrowd.protocols.joint.cover import JointCover, cells_of_part
from incrowd.protocols.joint.roles import to_every
from incrowd.protocols.registry import build
from incrowd.protocols.run import guarantees, make_actors
from incrowd.protocols.runtime.actor import (
    CURATOR,
    SHUFFLER,
    Actor,
    Effect,
    Maker,
    Message,
    Send,
    device,
)
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.runtime.cover import CellFormat, Tick
from incrowd.randomizers import KRR, Gaussian, Randomizer, Ternary
from incrowd.randomness import Seeds
from incrowd.sim import Faults, play, run
from incrowd.tasks import Histogram, Mean, Query, Release
from incrowd.tasks.joint import Asked, JointTask
from incrowd.tasks.query import Column
from tests.protocols.sealing import sealers

DELTA = 1e-6
MODE = Histogram(categories=("bus", "bike", "car"))
MINUTES = Mean(bounds=(0, 60))
TASK = JointTask(
    asked=(
        Asked(text="How?", column="mode", task=MODE),
        Asked(text="How long?", column="minutes", task=MINUTES),
    )
)
KINDS = ("local", "trusted-shuffle", "check-in", "network-shuffle", "token-walk")
FAULTY = Faults(loss=0.05, duplicate=0.1, crash=0.05)


def part(kind: str, randomizer: Randomizer, n: int) -> Protocol:
    """A protocol for one question."""
    more: dict[str, Any] = {
        "check-in": {"rounds": 3, "rate": 0.5},
        "network-shuffle": {"rounds": 8},
        "token-walk": {"steps": 3 * n},
    }.get(kind, {})
    source = {"graph": families.complete(n)} if kind == "network-shuffle" else {}
    return build(load(kind), {"n": n, **more}, randomizer, source)


def joint(kind: str, n: int, epsilon: float = 2.0) -> JointProtocol:
    """Both questions by protocols of one kind."""
    number: Randomizer = Ternary(epsilon=epsilon)
    if kind == "token-walk":  # adds up what it is told
        number = Gaussian(epsilon=epsilon, delta=DELTA)
    pairs = zip((KRR(categories=4, epsilon=epsilon), number), TASK.parts, strict=True)
    return JointProtocol.of([bound_to(part(kind, each, n), task) for each, task in pairs])


def people(n: int) -> np.ndarray:
    """Rows of answers, one in ten without each."""
    rng = np.random.default_rng(5)
    mode = rng.choice(["bus", "bike", "car", ""], n, p=[0.4, 0.3, 0.2, 0.1])
    minutes = np.where(rng.random(n) < 0.1, "", rng.integers(0, 61, n).astype(str))
    return np.column_stack([mode, minutes])


def standardised(runs: list[Any], values: np.ndarray) -> list[np.ndarray]:
    """Errors in units of the stated ones: for each question, a row per run."""
    columns = TASK.answers(values)
    return [
        np.array(
            [
                (each.answers[number].value - each.answers[number].beside(task.truth(column)))
                / each.answers[number].standard_error
                for each in runs
            ]
        )
        for number, (task, column) in enumerate(zip(TASK.parts, columns, strict=True))
    ]


def assert_standard(errors: np.ndarray) -> None:
    """No bias, and the stated spread, up to four standard deviations of either."""
    runs = len(errors)
    assert np.abs(errors.mean(axis=0)).max() < 4 / np.sqrt(runs) + 0.05
    spread = errors.std(axis=0)
    assert spread.max() < 1 + 4 / np.sqrt(2 * runs) + 0.05
    # Where people are drawn, stated errors are a little too large.
    assert spread.min() > 1 - 4 / np.sqrt(2 * runs) - 0.15


@pytest.mark.parametrize("kind", KINDS)
def test_simulated_errors_are_as_stated(kind: str) -> None:
    protocol, values = joint(kind, 300), people(300)
    encoded, runs = TASK.encode(values), []
    for seed in range(150):
        collected = protocol.corrected(protocol.collect(encoded, Seeds(seed)))
        triples = zip(TASK.parts, collected.parts, protocol.parts, strict=True)
        answers = [task.estimate(came, each.randomizer) for task, came, each in triples]
        runs.append(_Answered(answers))
    for errors in standardised(runs, values):
        assert_standard(errors)


class _Answered:
    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers


@pytest.mark.parametrize("kind", KINDS)
def test_actors_under_faults_answer_with_stated_errors(kind: str) -> None:
    protocol, values = joint(kind, 50), people(50)
    runs = [run(protocol, values, TASK, FAULTY, seed=seed) for seed in range(20)]
    assert sum(each.played.statistics.crashes for each in runs) > 0
    for errors in standardised(runs, values):
        assert_standard(errors)


@pytest.mark.parametrize("kind", KINDS)
def test_simulation_and_actors_conclude_alike(kind: str) -> None:
    protocol, values = joint(kind, 40), people(40)
    one, other = protocol.simulate(values, task=TASK, seed=1), run(protocol, values, TASK, seed=1)
    assert [each.labels for each in one.answers] == [each.labels for each in other.answers]
    assert one.cost.messages_per_person == sum(
        each.cost().messages_per_person for each in protocol.conditional_on(one.collected).parts
    )
    for executed in (one, other):
        assert len(executed.collected.parts) == 2
        proven = guarantees(protocol.conditional_on(executed.collected))
        for stated, found in zip(executed.guarantees, proven, strict=True):
            assert (stated.view, stated.theorem) == (found.view, found.theorem)
            assert stated.assumptions == found.assumptions


@pytest.mark.parametrize("kind", KINDS)
def test_guarantee_composes_those_of_all_questions(kind: str) -> None:
    protocol = joint(kind, 100, epsilon=0.5)
    # Sums of tokens are costly to compose: one view of them stands for all.
    for view in protocol.views[:1] if kind == "token-walk" else protocol.views:
        first, second = (each.guarantee(view) for each in protocol.parts)
        stated = protocol.guarantee(view)
        assert stated.view == first.view
        epsilon = stated.epsilon(DELTA)
        assert epsilon == first.compose(second).epsilon(DELTA)
        assert epsilon >= max(first.epsilon(DELTA), second.epsilon(DELTA))
        apart = first.epsilon(DELTA / 2) + second.epsilon(DELTA / 2)
        assert epsilon <= apart * (1 + 1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_run_with_dropout_states_what_all_questions_reveal_together(kind: str) -> None:
    protocol, values = joint(kind, 40), people(40)
    # On a walk, every hop to somebody who is absent loses a report.
    absent = 0.05 if kind == "network-shuffle" else 0.3
    played = run(protocol, values, TASK, Faults(dropout=absent), seed=2)
    happened = protocol.conditional_on(played.collected)
    pairs = zip(protocol.parts, played.collected.parts, strict=True)
    alone = [guarantees(each.conditional_on(came)) for each, came in pairs]
    stated, first, second = next(zip(played.guarantees, *alone, strict=True))
    assert stated.epsilon(DELTA) == first.compose(second).epsilon(DELTA)
    assert all(each.received > 0 for each in played.collected.parts)
    assert happened.parts[0].n <= 40


@pytest.mark.parametrize("kind", ["local", "trusted-shuffle"])
def test_dropout_shrinks_the_crowd_of_each_question(kind: str) -> None:
    protocol = joint(kind, 60)
    played = run(protocol, people(60), TASK, Faults(dropout=0.3), seed=2)
    happened = protocol.conditional_on(played.collected)
    received = [each.received for each in played.collected.parts]
    assert [each.n for each in happened.parts] == received
    assert max(received) < 60


def test_subset_keeps_all_questions_of_fewer_people() -> None:
    fewer = joint("trusted-shuffle", 60).subset(range(20))
    assert (fewer.n, [each.n for each in fewer.parts]) == (20, [20, 20])


# Messages and sealed reports belong to one question.


def sends(effects: list[Effect], to: str) -> list[Send]:
    return [each for each in effects if isinstance(each, Send) and each.to == to]


def makers(protocol: JointProtocol, values: np.ndarray) -> dict[str, Maker]:
    return make_actors(protocol, TASK.encode(values), Seeds(4), sealers(protocol))


def test_sealed_report_under_another_number_is_never_counted() -> None:
    """A shuffler that swaps the questions of reports, which it cannot open, only loses them."""
    protocol, values = joint("trusted-shuffle", 5, epsilon=20.0), people(5)

    def collected(swap: bool) -> list[int]:
        actors = {to: make() for to, make in makers(protocol, values).items()}
        queue = [(to, effect) for to, actor in actors.items() for effect in actor.start(0.0)]
        done: Any = None
        while queue:
            sender, effect = queue.pop(0)
            if isinstance(effect, Send):
                body = effect.body
                if swap and sender == device(0) and effect.to == SHUFFLER:
                    body = bytes([1 - body[0]]) + body[1:]
                found = actors[effect.to].receive(Message(sender, body), 0.1)
                queue += [(effect.to, each) for each in found]
            elif sender == CURATOR and hasattr(effect, "output"):
                done = effect.output
        return [each.received for each in done.parts]

    assert collected(swap=False) == [5, 5]
    assert collected(swap=True) == [4, 4]


def test_acknowledgement_under_another_number_settles_nothing() -> None:
    protocol, values = joint("local", 3), people(3)
    made = makers(protocol, values)
    person, curator = made[device(0)](), made[CURATOR]()
    curator.start(0.0)
    (first, _) = sends(person.start(0.0), CURATOR)
    (answer,) = sends(curator.receive(Message(device(0), first.body), 0.1), device(0))
    before = person.state()
    for number in (1, 2, 200):
        person.receive(Message(CURATOR, bytes([number]) + answer.body[1:]), 0.2)
        assert person.state() == before
    person.receive(Message(CURATOR, answer.body), 0.2)
    assert person.state() != before


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(body=st.binary(max_size=40))
def test_arbitrary_bytes_change_nothing(kind: str, body: bytes) -> None:
    protocol, values = joint(kind, 4), people(4)
    for make in makers(protocol, values).values():
        actor = make()
        actor.start(0.0)
        before = actor.state()
        for sender in ("stranger", device(1)):
            assert not [x for x in actor.receive(Message(sender, body), 0.1) if type(x) is Send]
            assert actor.state() == before


def test_absence_reaches_every_question() -> None:
    protocol = joint("network-shuffle", 6)
    inner = protocol.parts[0].absence_message
    assert protocol.absence_message == (None if inner is None else to_every(inner))


class Restarted(Actor):
    """A party that crashes after every call and goes on from its state."""

    def __init__(self, make: Maker) -> None:
        self.make, self.actor = make, make()

    def _call(self, call: Callable[[Actor], list[Effect]]) -> list[Effect]:
        effects, state = call(self.actor), self.actor.state()
        self.actor = self.make()
        self.actor.resume(state)
        assert self.actor.state() == state
        return effects

    def start(self, now: float) -> list[Effect]:
        return self._call(lambda actor: actor.start(now))

    def receive(self, message: Message, now: float) -> list[Effect]:
        return self._call(lambda actor: actor.receive(message, now))

    def wake(self, now: float) -> list[Effect]:
        return self._call(lambda actor: actor.wake(now))

    def state(self) -> bytes:
        return self.actor.state()

    def resume(self, state: bytes) -> None:
        self.actor.resume(state)


@pytest.mark.parametrize("kind", KINDS)
def test_restart_after_every_call_ends_alike(kind: str) -> None:
    protocol, values = joint(kind, 8), people(8)
    made = make_actors(protocol, TASK.encode(values), Seeds(3))
    broken = {to: lambda make=make: Restarted(make) for to, make in made.items()}
    ends = [play(cast, Seeds(3), Faults(loss=0.1)).outputs[CURATOR] for cast in (made, broken)]
    first, second = ([repr(vars(each)) for each in end.parts] for end in ends)
    assert first == second


# Cover traffic.

formats = st.builds(
    lambda record, more, seal: CellFormat(capacity=2 * record + more, record=record, seal=seal),
    st.integers(1, 12),
    st.integers(4, 80),
    st.integers(0, 60),
)


@settings(max_examples=400, deadline=None)
@given(
    cells=formats,
    lengths=st.lists(st.lists(st.integers(1, 200), max_size=6), min_size=1, max_size=5),
    order=st.randoms(use_true_random=False),
)
def test_cells_of_parts_hold_messages_of_all_in_any_order(
    cells: CellFormat, lengths: list[list[int]], order: Any
) -> None:
    smaller = cells_of_part(cells)
    planned = sum(smaller.needed(*each) for each in lengths)
    sent = [length + 1 for each in lengths for length in each]
    order.shuffle(sent)
    assert cells.needed(*sent) <= planned


def test_cells_without_room_for_a_record_would_overflow() -> None:
    """The smaller cells are no luxury: with whole ones, some order needs more than planned."""
    cells = CellFormat(capacity=10, record=1, seal=0)
    whole = replace(cells, record=cells.record + 1)
    planned = whole.needed(1, 5) + whole.needed(8)
    assert cells.needed(2, 9, 6) > planned


@pytest.mark.parametrize("kind", ["trusted-shuffle", "check-in"])
def test_messages_of_a_covered_device_fit_its_first_tick(kind: str) -> None:
    cells = CellFormat(capacity=256, record=8, seal=48)
    protocol = covered(joint(kind, 12), DELTA, cells)
    plan = cover_of(protocol)
    assert isinstance(plan, JointCover)
    assert plan.overflow == sum(each.overflow for each in plan.parts)
    timing = plan.paced(Timing())
    encoded = TASK.encode(people(12))
    for person, make in enumerate(list(make_actors(protocol, encoded, Seeds(1)).values())[:12]):
        first = plan.ticks(device(person), timing)[0]
        for to, count in first.cells.items():
            lengths = [len(each.body) for each in sends(make().start(0.0), to)]
            assert cells.needed(*lengths) <= count


def test_ticks_add_up_those_of_all_questions() -> None:
    protocol = covered(joint("network-shuffle", 12), 1e-3, CellFormat(256, 8, 48))
    plan = cover_of(protocol)
    assert isinstance(plan, JointCover)
    timing = plan.paced(Timing())
    found = plan.ticks(device(3), timing)
    assert [each.at for each in found] == sorted({each.at for each in found})

    def total(ticks: list[Tick]) -> int:
        return sum(sum(each.cells.values()) for each in ticks)

    alone = [total(each.ticks(device(3), timing)) for each in plan.parts]
    assert total(found) == list(accumulate(alone))[-1]


# Random streams.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("execution", ["simulate", "actors"])
def test_two_equal_questions_are_reported_independently(kind: str, execution: str) -> None:
    """What one person reports to one says nothing of the report to the other."""
    n, randomizer = 4, KRR(categories=2, epsilon=0.01)
    task = Histogram(categories=("0", "1"), complete=True)
    each = bound_to(part(kind, randomizer, n), task)
    protocol, values = JointProtocol.of([each, each]), np.zeros((n, 2))
    pairs = []
    for seed in range(60):
        seeds = Seeds(seed)
        if execution == "simulate":
            collected: Any = protocol.collect(values, seeds)
        else:
            collected = play(make_actors(protocol, values, seeds), seeds).outputs[CURATOR]
        first, second = (repr(vars(came)) for came in collected.parts)
        pairs.append(first == second)
    assert np.mean(pairs) < 0.6
    assert not all(pairs)


def test_child_seeds_are_independent_of_each_other_and_of_their_root() -> None:
    root = Seeds(11)
    streams = [root.child("question", number).generator("device", 0) for number in range(8)]
    streams.append(root.generator("device", 0))
    bits = np.array([each.integers(0, 2, 4000) for each in streams])
    for one in range(len(bits)):
        for other in range(one):
            table = np.bincount(2 * bits[one] + bits[other], minlength=4)
            assert chisquare(table).pvalue > 1e-5
    again = root.child("question", 3).generator("device", 0).integers(0, 2, 4000)
    assert (again == bits[3]).all()


# What goes together.


def test_protocols_of_other_people_or_kinds_do_not_go_together() -> None:
    one = part("local", KRR(categories=4, epsilon=1.0), 5)
    for other in (
        part("local", Ternary(epsilon=1.0), 6),
        part("trusted-shuffle", Ternary(epsilon=1.0), 5),
    ):
        with pytest.raises(InvalidParameter, match="questions go together"):
            JointProtocol.of([one, other])
    with pytest.raises(InvalidParameter, match="at most 255"):
        JointProtocol.of([one] * 256)


@pytest.mark.parametrize(
    "task",
    [
        Release(categories=("a", "b"), groups="street"),
        Query(
            sql="SELECT AVG(x) FROM t",
            table="t",
            columns=(Column(name="x", type="number", low=0, high=1),),
        ),
    ],
    ids=lambda task: task.kind,
)
def test_task_refuses_question_that_stands_alone(task: Any) -> None:
    with pytest.raises(InvalidParameter, match="stands alone"):
        JointTask(asked=(TASK.asked[0], Asked(column="t", task=task)))


@pytest.mark.parametrize("other", [Histogram(categories=("bus", "car")), Mean(bounds=(0, 1))])
def test_task_refuses_two_domains_of_one_column(other: Any) -> None:
    with pytest.raises(InvalidParameter, match="'mode' has other categories or bounds"):
        JointTask(asked=(TASK.asked[0], Asked(column="mode", task=other)))


def test_task_asks_for_a_column_of_two_questions_once() -> None:
    total = Asked(column="minutes", task=Mean(bounds=(0, 60), complete=False))
    task = JointTask(asked=(*TASK.asked, total))
    assert task.asks("") == ("mode", "minutes")
    assert [each.tolist() for each in task.answers(people(2))][1:] == [
        people(2)[:, 1].tolist(),
        people(2)[:, 1].tolist(),
    ]


cells = st.none() | st.text() | st.floats().map(str)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(cells, cells), min_size=1, max_size=4))
def test_encode_of_any_texts_is_the_same_row_by_row(rows: list[tuple[str | None, ...]]) -> None:
    together = TASK.encode(TASK.rows(rows))
    assert together.shape == (len(rows), 2)
    for place, row in enumerate(rows):
        assert TASK.encode(TASK.rows([row])).tobytes() == together[place].tobytes()
