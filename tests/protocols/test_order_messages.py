"""The messages of an order-private shuffle: how they are written, how long they get, and places."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from contract import bounded
from hypothesis import given
from hypothesis import strategies as st

from incrowd.errors import InvalidParameter
from incrowd.live.links import SEAL
from incrowd.protocols.order_shuffle import OrderShuffle, groupings
from incrowd.protocols.order_shuffle.messages import (
    PlacedBatch,
    PlacedReport,
    PlaceFormat,
    placed_bytes,
)
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import SHUFFLER
from incrowd.protocols.runtime.cover import CellFormat
from incrowd.randomizers import KRR
from incrowd.randomness import Seeds
from incrowd.tasks.release import MOST_GROUP_TEXT, Release
from tests.sim.order_played import KINDS, placed

LONGEST = "\U0010ffff" * MOST_GROUP_TEXT
ID = bytes(range(16))

GOLDEN = [
    (
        PlacedReport(ID, [52.5, -13.25], b"\x07"),
        "94a6706c61636564c410000102030405060708090a0b0c0d0e0f"
        "92cb404a400000000000cbc02a800000000000c40107",
    ),
    (
        PlacedReport(ID, "north; é", b"\x07"),
        "94a6706c61636564c410000102030405060708090a0b0c0d0e0fa96e6f7274683b20c3a9c40107",
    ),
    (
        PlacedReport(ID, None, b"\x07\x08"),
        "94a6706c61636564c410000102030405060708090a0b0c0d0e0fc0c4020708",
    ),
    (
        PlacedBatch([0, 300], [[0.5], [1.0]], [b"\x01", b""]),
        "94ac706c616365642d62617463689200cd012c9291cb3fe000000000000091cb3ff000000000000092c40101c400",
    ),
    (
        PlacedBatch([2], ["a"], [b"\x01"]),
        "94ac706c616365642d6261746368910291a16191c40101",
    ),
    (PlacedBatch([], [], []), "94ac706c616365642d6261746368909090"),
]


@pytest.mark.parametrize(("message", "written"), GOLDEN)
def test_messages_are_written_as_ever(message, written):
    assert wire.encode(message).hex() == written
    assert msgspec.msgpack.decode(bytes.fromhex(written), type=type(message)) == message


@pytest.mark.parametrize(
    "wrong",
    [
        PlacedReport(ID[:-1], None, b"x"),
        PlacedReport(ID + b"x", None, b"x"),
        PlacedReport(ID, None, b""),
        PlacedReport(ID, [], b"x"),
        PlacedReport(ID, [0.0] * 9, b"x"),
        PlacedReport(ID, "", b"x"),
        PlacedReport(ID, "x" * (MOST_GROUP_TEXT + 1), b"x"),
        PlacedReport(ID, b"x", b"x"),
        PlacedReport(ID, ["1"], b"x"),
        PlacedReport(ID, [None], b"x"),
        PlacedReport(ID, None, "x"),
        PlacedBatch([-1], [None], [b"x"]),
        PlacedBatch([2**32], [None], [b"x"]),
        PlacedBatch([0], [b"x"], [b"x"]),
        PlacedBatch([0], [None], ["x"]),
    ],
)
def test_messages_out_of_bounds_are_not_decoded(wrong):
    decoder = msgspec.msgpack.Decoder(type(wrong))
    assert wire.decode(decoder, wire.encode(wrong), 1 << 20) is None


@bounded
@given(st.binary(max_size=300))
def test_arbitrary_bytes_decode_to_message_or_none(body):
    for kind in (PlacedReport, PlacedBatch):
        found = wire.decode(msgspec.msgpack.Decoder(kind), body, 250)
        if found is not None:
            assert len(body) <= 250
            assert isinstance(found, kind)


numbers = st.floats(allow_nan=True, allow_infinity=True)
messages = st.builds(
    PlacedReport,
    st.binary(min_size=16, max_size=16),
    st.one_of(
        st.none(),
        st.lists(numbers, min_size=1, max_size=8),
        st.text(min_size=1, max_size=MOST_GROUP_TEXT),
    ),
    st.binary(min_size=1, max_size=100),
)


@bounded
@given(messages)
def test_reports_are_never_longer_than_priced(message):
    kind = {list: "points", str: "groups", type(None): "people"}[type(message.place)]
    axes = len(message.place) if kind == "points" else 0
    body = wire.encode(message)
    priced = placed_bytes(len(message.payload), kind, axes)
    assert len(body) == priced if kind != "groups" else len(body) <= priced
    again = wire.encode(msgspec.msgpack.decode(body, type=PlacedReport))
    assert again == body


@pytest.mark.parametrize(("kind", "axes"), [("points", 8), ("groups", 0), ("people", 0)])
def test_longest_message_fits_decoders(kind, axes):
    """With everything at its largest, sealed; and so does the batch of as many of them."""
    place = {"points": [math.pi] * 8, "groups": LONGEST, "people": None}[kind]
    nbytes, people = 8, 50
    payload = bytes(nbytes + SEAL)
    longest = wire.encode(PlacedReport(ID, place, payload))
    assert len(longest) == placed_bytes(len(payload), kind, axes) <= wire.report_limit(nbytes)
    who = [2**32 - people + each for each in range(people)]
    batch = wire.encode(PlacedBatch(who, [place] * people, [payload] * people))
    assert len(batch) <= wire.batch_limit(nbytes, people)


def test_task_has_no_more_coordinates_than_message():
    eight = Release(categories=("a", "b"), coordinates=tuple("abcdefgh"))
    body = wire.encode(PlacedReport(ID, [0.0] * len(eight.coordinates), b"x"))
    assert wire.decode(msgspec.msgpack.Decoder(PlacedReport), body, 1000) is not None
    with pytest.raises(InvalidParameter, match="at most 8"):
        Release(categories=("a", "b"), coordinates=tuple("abcdefghi"))


@pytest.mark.parametrize("kind", KINDS)
def test_cover_has_cells_for_longest_message(kind):
    protocol, _ = placed(kind)
    cells = CellFormat(capacity=810, record=14, seal=SEAL)
    covered = protocol.covered(1e-6, cells)
    plan = covered.cover
    assert plan.collector == SHUFFLER
    assert plan.cells == (2 if kind == "groups" else 1)
    assert covered.cover == plan
    with_hub = covered.order_guarantee("curator+hub")
    assert with_hub is not None
    assert with_hub.alpha == covered.order_guarantee("curator").alpha


# Places.


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (
            PlaceFormat.of("points", 2, "euclidean", 2.0),
            [[0.0, 0.0], [-1e12, 1e12], [5e-324, -0.0]],
            [
                [0.0], [0.0] * 3, [math.nan, 0.0], [0.0, math.inf], [-math.inf, 0.0],
                [1e13, 0.0], [0.0, -1e300], "a", None,
            ],
        ),
        (
            PlaceFormat.of("points", 1, "euclidean", 0.0),
            [[1e150], [-1e150]],
            [[1.1e150], [math.inf], [math.nan]],
        ),
        (
            PlaceFormat.of("points", 2, "haversine", 5.0),
            [[90.0, 180.0], [-90.0, -180.0], [52.5, 13.4]],
            [[90.1, 0.0], [0.0, 180.1], [math.nan, 0.0], [0.0], [0.0] * 3, None],
        ),
        (
            PlaceFormat.of("groups", 0, "euclidean", None),
            ["a", "a;b", " a ; ", LONGEST],
            ["", " ; ;", ";", None, [1.0]],
        ),
        (PlaceFormat.of("people", 0, "euclidean", None), [None], ["a", [0.0], [], ""]),
    ],
)  # fmt: skip
def test_place_format_accepts_only_fitting_places(form, good, bad):
    assert all(map(form.fits, good))
    assert not any(map(form.fits, bad))


def test_place_beyond_bounds_would_join_all_groups():
    """What :class:`PlaceFormat` keeps out, and what it lets in does not."""
    here = [[float(each), 0.0] for each in range(5)]
    lonely = groupings.from_points(np.array([*here, [1e16, 0.0]]), 0.5)
    assert lonely.largest > 1
    furthest = PlaceFormat.of("points", 2, "euclidean", 0.5).bounds[0]
    assert groupings.from_points(np.array([*here, [furthest, 0.0]]), 0.5).largest == 1


@st.composite
def surveys(draw):
    """A survey by points, and places of a few people in it, some as far away as can be."""
    metric = draw(st.sampled_from(["euclidean", "haversine"]))
    axes = 2 if metric == "haversine" else draw(st.integers(1, 8))
    radius = draw(st.sampled_from([0.0, 1e-9, 1.0, 5.0, 1e9]))
    form = PlaceFormat.of("points", axes, metric, radius)
    coordinates = [
        st.one_of(st.floats(-most, most), st.sampled_from([-most, most, 0.0, -0.0, 5e-324]))
        for most in form.bounds
    ]
    places = draw(st.lists(st.tuples(*coordinates).map(list), min_size=1, max_size=12))
    return metric, radius, form, places


@bounded
@given(surveys())
def test_fitting_places_can_be_shuffled(survey):
    """Nobody can stop the shuffler with a place that it takes in."""
    metric, radius, form, places = survey
    assert all(map(form.fits, places))
    task = Release(categories=("a", "b"), coordinates=tuple("abcdefgh"[: len(form.bounds)]))
    protocol = OrderShuffle(
        KRR(categories=2, epsilon=1.0), n=len(places), alpha=1.0, radius=radius, metric=metric
    ).bound_to(task)
    values = np.zeros(len(places), task.dtype)
    values["point"] = places
    found = protocol.collect(values, Seeds(1))
    assert found.received == len(places)
    mechanism = protocol.conditional_on(found).mechanism
    assert mechanism is not None
    assert mechanism.alpha <= 1.0
