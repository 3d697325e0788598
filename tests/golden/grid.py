"""The cases, in plain words: who takes part in which protocol, with which settings.

Nothing here names a class or a module of the library: ``adapter.py`` alone knows those. Settings
have the names that the design gives them; the adapter knows what they are called today.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CASES", "Case"]

SMALL = 12
"""People in a case that is run."""
LARGE = 300
"""People in a case that is only accounted for."""

RANDOMIZERS: dict[str, dict[str, Any]] = {
    "rr": {"epsilon": 1.0},
    "krr": {"categories": 5, "epsilon": 1.0},
    "oue": {"categories": 5, "epsilon": 1.0},
    "sue": {"categories": 5, "epsilon": 1.0},
    "hadamard": {"categories": 5, "epsilon": 1.0},
    "olh": {"categories": 5, "epsilon": 1.0},
    "onebit": {"epsilon": 1.0},
    "ternary": {"epsilon": 1.0},
    "laplace": {"epsilon": 1.0},
    "gaussian": {"epsilon": 1.0, "delta": 1e-3},
    "privunit": {"dimension": 3, "epsilon": 1.0},
    "gaussian-vector": {"dimension": 3, "epsilon": 1.0, "delta": 1e-3},
    "generic": {"epsilon": 1.0},
}
SHUFFLED = tuple(kind for kind in RANDOMIZERS if kind != "gaussian-vector")
DRAWN = tuple(kind for kind in SHUFFLED if kind != "generic")

SLOW = ("laplace", "gaussian")
"""Reports that are numbers: the curve of a few of them, shuffled, takes many seconds."""

SHUFFLING = ("trusted shuffle", "check-in", "network shuffle")

CALM, STORMY, ABSENT, OFF = "calm", "stormy", "absent", "switched off"
EVERY_FAULT = (CALM, STORMY, ABSENT, OFF)
COLLUDERS = (0, 3, 0.25, (1, 2))


@dataclass(frozen=True)
class Case:
    """One protocol with its settings, and what is to be recorded of it."""

    name: str
    protocol: str
    settings: Mapping[str, Any]
    randomizer: tuple[str, Mapping[str, Any]] | None = ("rr", RANDOMIZERS["rr"])
    views: Sequence[str] = ("curator", "curator+hub", "everyone")
    colluders: Sequence[int | float | Sequence[int]] = (0,)
    delta: float = 1e-2
    epsilon: float = 0.25
    simulated: bool = True
    played: Sequence[str] = ()
    """The weather of each run by actors."""
    covered: bool = False
    missing: Sequence[str] = ()
    """What is taken away from a simulated run before its guarantee is stated again."""
    question: str = ""
    """What is asked, where the randomizer's own values do not say it."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further things that the adapter needs to know."""


def randomized(kind: str, **changes: Any) -> tuple[str, dict[str, Any]]:
    return kind, RANDOMIZERS[kind] | changes


def accounted(name: str, protocol: str, settings: Mapping[str, Any], **more: Any) -> Case:
    """A case of many people that is not run."""
    given = {"delta": 1e-5, "simulated": False} | more
    return Case(f"{protocol}, {name}", protocol, settings, **given)


def run(name: str, protocol: str, settings: Mapping[str, Any], **more: Any) -> Case:
    """A case of few people that is simulated, and played by actors."""
    given = {"played": (CALM, STORMY)} | more
    kind = (given.get("randomizer") or ("",))[0]
    if kind in SLOW and protocol in SHUFFLING:
        given["views"] = ("everyone",)
    return Case(f"{protocol}, {name}", protocol, settings, **given)


def local() -> Iterator[Case]:
    kind = "local"
    for each in SHUFFLED:
        how = randomized(each)
        yield accounted(
            f"{each}, 3 rounds accounted", kind, {"n": LARGE, "rounds": 3}, randomizer=how
        )
    for each in DRAWN:
        yield run(f"{each} run", kind, {"n": SMALL, "rounds": 2}, randomizer=randomized(each))
    yield run(
        "rr, every fault",
        kind,
        {"n": SMALL, "rounds": 3},
        colluders=COLLUDERS,
        played=EVERY_FAULT,
        missing=("some of a round", "the last round"),
    )
    yield run("krr, one round", kind, {"n": SMALL}, randomizer=randomized("krr", epsilon=3.0))


def trusted_shuffle() -> Iterator[Case]:
    kind = "trusted shuffle"
    views = ("curator", "curator+hub", "curator+shuffler", "everyone")
    for each in SHUFFLED:
        for rounds in (1, 3) if each in ("rr", "krr") else (1,):
            yield accounted(
                f"{each}, {rounds} rounds accounted",
                kind,
                {"n": LARGE, "rounds": rounds},
                randomizer=randomized(each),
                views=views,
                colluders=(0, 20) if each == "krr" else (0,),
            )
    for each in ("krr", "generic"):
        yield accounted(
            f"{each}, adaptive",
            kind,
            {"n": LARGE, "rounds": 2, "adaptive": True},
            randomizer=randomized(each),
            views=views,
        )
    yield accounted(
        "krr, far apart",
        kind,
        {"n": 10_000},
        randomizer=randomized("krr", epsilon=4.0),
        views=views,
        delta=1e-6,
    )
    for each in DRAWN:
        yield run(
            f"{each} run",
            kind,
            {"n": SMALL},
            randomizer=randomized(each),
            views=views,
            covered=each in ("rr", "privunit"),
        )
    yield run(
        "rr, every fault",
        kind,
        {"n": 40, "rounds": 3},
        colluders=(0, 0.25),
        views=views,
        played=EVERY_FAULT,
        covered=True,
        missing=("some of a round", "the last round", "a round is empty"),
    )


def check_in() -> Iterator[Case]:
    kind = "check-in"
    views = ("curator", "curator+hub", "curator+shuffler", "everyone")
    for each in SHUFFLED:
        yield accounted(
            f"{each} accounted",
            kind,
            {"n": 5 * LARGE if each in SLOW else LARGE, "rate": 0.2},
            randomizer=randomized(each),
            views=views,
        )
    ways: dict[str, dict[str, Any]] = {
        "at least a share": {"min_participants": 0.8},
        "at least so many": {"min_participants": 100},
        "no dummies": {"dummies": False},
        "adaptive": {"adaptive": True},
    }
    for way, settings in ways.items():
        yield accounted(
            f"krr, {way}",
            kind,
            {"n": LARGE, "rate": 0.2, "rounds": 2} | settings,
            randomizer=randomized("krr"),
            views=views,
        )
    rates = tuple(0.1 + 0.05 * (person % 10) for person in range(30))
    yield accounted(
        "krr, own rates",
        kind,
        {"n": 30, "rates": rates, "rounds": 2},
        randomizer=randomized("krr"),
        views=views,
        delta=1e-3,
    )
    for each in DRAWN:
        yield run(
            f"{each} run",
            kind,
            {"n": SMALL, "rate": 0.6},
            randomizer=randomized(each),
            views=views,
            covered=each in ("rr", "privunit"),
        )
    ways = {
        "every fault": {"rate": 0.4},
        "every fault, one round": {"rate": 0.6, "rounds": 1},
        "every fault, at least 20": {"rate": 0.4, "min_participants": 20},
        "every fault, no dummies": {"rate": 0.4, "dummies": False},
        "every fault, own rates": {"rates": tuple(0.2 + 0.02 * each for each in range(30))},
    }
    for way, settings in ways.items():
        yield run(
            f"rr, {way}",
            kind,
            {"n": 30, "rounds": 3} | settings,
            views=views,
            played=EVERY_FAULT,
            covered=way == "every fault",
            missing=("some people in a round", "the last round"),
        )


def network_shuffle() -> Iterator[Case]:
    kind = "network shuffle"
    for each in SHUFFLED:
        yield accounted(
            f"{each} accounted",
            kind,
            {"n": LARGE, "stationary": True}
            if each in SLOW
            else {"graph": ("regular", 24, 4), "rounds": 6},
            randomizer=randomized(each),
            delta=1e-3,
            colluders=(0, 3) if each == "krr" else (0,),
        )
    ways: dict[str, dict[str, Any]] = {
        "stationary crowd": {"n": LARGE, "stationary": True},
        "stationary on a graph": {"graph": ("scale-free", 24, 3), "stationary": True},
        "lazy": {"graph": ("scale-free", 24, 3), "rounds": 5, "laziness": 0.2},
        "single": {"graph": ("regular", 24, 4), "rounds": 8, "hand_in": "single"},
        "rounds chosen": {"graph": ("regular", 24, 4), "rounds": "auto"},
        "rounds chosen for most": {
            "graph": ("scale-free", 24, 3),
            "rounds": "auto",
            "target_ratio": 1.2,
            "target_quantile": 0.9,
        },
        "random peers": {"graph": "regular:4", "n": 24, "rounds": 6, "random_peers": 2},
        "graphs in turn": {"graph": (("ring", 24), ("regular", 24, 4)), "rounds": 6},
        "people away": {
            "graph": ("regular", 24, 4),
            "rounds": 6,
            "away": ((1, 3), (2, 3), (4, 7)),
            "silent": (5, 9),
        },
    }
    for way, settings in ways.items():
        watched = not settings.get("stationary")
        yield accounted(
            f"krr, {way}",
            kind,
            settings,
            randomizer=randomized("krr"),
            delta=1e-3,
            colluders=(0, (1, 4)) if watched else (0,),
        )
    for each in DRAWN:
        yield run(
            f"{each} run",
            kind,
            {"graph": ("regular", SMALL, 4), "rounds": 4},
            randomizer=randomized(each),
            covered=each in ("rr", "privunit"),
        )
    ways = {
        "complete graph": {"graph": ("complete", 16), "rounds": 4},
        "regular graph": {"graph": ("regular", 16, 4), "rounds": 6},
        "lazy": {"graph": ("regular", 16, 4), "rounds": 6, "laziness": 0.3},
        "single": {"graph": ("complete", 16), "rounds": 6, "hand_in": "single"},
        "graphs in turn": {"graph": (("ring", 16), ("complete", 16)), "rounds": 4},
    }
    for way, settings in ways.items():
        yield run(
            f"krr, every fault, {way}",
            kind,
            settings,
            randomizer=randomized("krr"),
            played=EVERY_FAULT,
            covered=way == "lazy",
            missing=("two people away", "a silent person", "a lost report"),
        )


def order_shuffle() -> Iterator[Case]:
    kind = "order shuffle"
    views = ("curator", "curator+hub", "curator+shuffler", "everyone")
    line = {"groups": ("line", SMALL), "alpha": 1.0}
    for each in (*SHUFFLED, "unstated"):
        how = ("unstated", {}) if each == "unstated" else randomized(each)
        yield accounted(
            f"{each} accounted",
            kind,
            {"groups": ("line", 60), "alpha": 1.0},
            randomizer=how,
            views=views,
            colluders=(0, 3),
        )
    for each in DRAWN:
        yield run(f"{each} run", kind, line, randomizer=randomized(each), views=views)
    ways: dict[str, dict[str, Any]] = {
        "alpha 0": {"alpha": 0.0},
        "theta": {"alpha": None, "theta": 0.4},
        "hamming": {"distance": "hamming"},
        "few values": {"few_values": True},
        "hamming, few values": {"distance": "hamming", "few_values": True},
        "doubles": {"exact": False},
        "hamming, doubles": {"distance": "hamming", "exact": False},
        "given order": {"order": (3, 1, 0, 2, 5, 4, 7, 6, 9, 8, 11, 10)},
        "blocks": {"groups": ("blocks", SMALL)},
        "steps on a graph": {"groups": ("steps", ("ring", SMALL), 1)},
        **{
            f"order by {each}": {"method": each}
            for each in ("label", "bfs", "bfs-peripheral", "rcm")
        },
    }
    for way, settings in ways.items():
        yield run(
            f"krr, {way}",
            kind,
            line | settings,
            randomizer=randomized("krr"),
            views=views,
            colluders=(0, (1, 2)),
            covered=way in ("theta", "few values"),
            played=EVERY_FAULT if way in ("theta", "few values", "hamming") else (CALM,),
            missing=("some places", "an unread report"),
        )
    places: dict[str, dict[str, Any]] = {
        "balls": {"radius": 2.5},
        "balls in squares": {"radius": 2.5, "shape": "square"},
        "kilometres": {"radius": 300.0, "metric": "haversine"},
        "squares of kilometres": {"radius": 300.0, "metric": "haversine", "shape": "square"},
        **{
            f"balls, order by {each}": {"radius": 2.5, "method": each}
            for each in ("coordinate", "hilbert", "strips")
        },
        "balls, hamming": {"radius": 2.5, "distance": "hamming"},
        "balls, theta": {"radius": 2.5, "alpha": None, "theta": 0.3},
    }
    for way, settings in places.items():
        yield run(
            f"krr at points, {way}",
            kind,
            {"n": SMALL, "alpha": 1.0} | settings,
            randomizer=randomized("krr"),
            views=views,
            question="release at points",
            played=EVERY_FAULT if way == "balls" else (CALM,),
            covered=way == "balls",
            missing=("some places",),
        )
    yield run(
        "krr in named groups",
        kind,
        {"n": SMALL, "alpha": 1.0},
        views=views,
        randomizer=randomized("krr"),
        question="release in groups",
        played=EVERY_FAULT,
        covered=True,
        missing=("some places",),
    )


def token_walk() -> Iterator[Case]:
    kind = "token walk"
    views = (
        "peer",
        "peer+hub",
        "peer+courier",
        "curator",
        "curator+peer",
        "curator+hub",
        "everyone",
    )
    drawn = ("krr", "gaussian", "gaussian-vector")
    ways: dict[str, dict[str, Any]] = {
        "hidden path": {},
        "hidden path, published": {"published": True},
        "two tokens": {"tokens": 2},
        "people away": {"available": 0.8},
        "public path": {"path": "public"},
        "public path, capped": {"path": "public", "cap": 2},
    }
    for way, settings in ways.items():
        for each in () if way == "two tokens" else drawn:
            yield accounted(
                f"{each}, {way} accounted",
                kind,
                {"n": 100, "steps": 200} | settings,
                randomizer=randomized(each),
                views=views,
                delta=1e-4,
                colluders=(0, 2) if (each, way) == ("gaussian", "hidden path") else (0,),
            )
        for each in drawn:
            often = each == "gaussian" or way == "hidden path"
            yield run(
                f"{each}, {way} run",
                kind,
                {"n": SMALL, "steps": 20} | settings,
                randomizer=randomized(each),
                views=("everyone",) if way == "two tokens" else views,
                played=EVERY_FAULT if often else (CALM,),
                missing=("a person", "some noise") if way == "hidden path" else (),
            )
    learning = {"n": 100, "steps": 200, "contribution": "sgd", "sigma": 2.0, "clip": 1.0}
    for way, settings in {
        "hidden path": {},
        "public path": {"path": "public", "cap": 2},
    }.items():
        yield accounted(
            f"learning, {way}",
            kind,
            learning | settings,
            randomizer=None,
            views=views,
            delta=1e-4,
            colluders=(0, 2),
        )
    yield accounted(
        "sigma alone",
        kind,
        {"n": 100, "steps": 200, "sigma": 3.0, "sensitivity": 2.0},
        randomizer=None,
        views=views,
        delta=1e-4,
        colluders=(0, 2),
    )
    for each in ("krr", "gaussian", "gaussian-vector", "laplace"):
        for spread in (False, True) if each.startswith("gaussian") else (False,):
            way = f"{each}, ring{', noise split' if spread else ''}"
            settings = {"topology": "ring", "laps": 2, "split_noise": spread}
            yield accounted(
                f"{way} accounted",
                kind,
                {"n": 50} | settings,
                colluders=(0, 2),
                randomizer=randomized(each),
                views=views,
                delta=1e-4,
            )
            yield run(
                f"{way} run",
                kind,
                {"n": SMALL} | settings,
                randomizer=randomized(each),
                views=views,
                played=EVERY_FAULT,
                missing=("a person", "some steps"),
            )
    for each in drawn:
        settings = {"topology": "graph", "cap": 2}
        yield accounted(
            f"{each}, graph accounted",
            kind,
            colluders=(0, 2),
            views=views,
            delta=1e-4,
            settings=settings | {"graph": ("regular", 30, 4), "steps": 60},
            randomizer=randomized(each),
        )
        yield run(
            f"{each}, graph run",
            kind,
            settings | {"graph": ("regular", SMALL, 4), "steps": 20},
            views=views,
            randomizer=randomized(each),
            missing=("a person", "some steps"),
            played=EVERY_FAULT if each == "gaussian" else (CALM,),
        )
    yield accounted(
        "gaussian, graph, one pair",
        kind,
        {"topology": "graph", "graph": ("ring", 12), "steps": 60, "cap": 2, "pair": (0, 5)},
        randomizer=randomized("gaussian"),
        views=views,
        delta=1e-4,
        colluders=(0,),
    )


def scrambled_query() -> Iterator[Case]:
    kind = "scrambled query"
    views = (
        "network",
        "network+hub",
        "network+scrambler",
        "curator",
        "curator+network",
        "everyone",
    )
    travel = {"targets": 4, "redirect_probability": 0.1, "sources": 50, "dummies": 20}
    ways: dict[str, dict[str, Any]] = {
        "lies and dummies": {},
        "dummies alone": {"redirect_probability": 0.0, "dummies": 100},
        "lies alone": {"dummies": 0},
        "many people": {"n": 480},
        "three sets": {"grouping_sets": 3},
        "three sets, one each": {"n": 300, "grouping_sets": 3, "sets_per_person": "one"},
        "noise in the result": {"release_epsilon": 0.5},
        "noise in the result, three sets": {"release_epsilon": 0.5, "grouping_sets": 3},
        "noise in the result, one set each": {
            "n": 300,
            "release_epsilon": 0.5,
            "grouping_sets": 3,
            "sets_per_person": "one",
        },
        "capped": {"hiding": "capped", "sources": 10, "dummies": 6, "targets": 3},
        "no scramblers": {"hiding": "local", "sources": 0, "dummies": 2, "n": 100},
    }
    for way, settings in ways.items():
        yield accounted(
            f"{way} accounted",
            kind,
            travel | settings,
            randomizer=None,
            views=views,
            delta=1e-4,
            colluders=(0, 3),
        )
    for each in (name for name in SHUFFLED if name not in SLOW):
        yield accounted(
            f"{each} among dummies accounted",
            kind,
            {"targets": 4, "sources": 8, "dummies": 4},
            randomizer=randomized(each),
            views=("network", "network+scrambler"),
            delta=1e-2,
        )
    few = {"n": SMALL, "targets": 3, "sources": 6, "dummies": 4, "standby_scramblers": 1}
    ways = {
        "dummies": {},
        "lies": {"redirect_probability": 0.3},
        "one set each": {"sets_per_person": "one", "sources": 4, "redirect_probability": 0.1},
        "no scramblers": {
            "hiding": "local",
            "sources": 0,
            "dummies": 1,
            "standby_scramblers": 0,
            "redirect_probability": 0.2,
        },
        "capped": {"hiding": "capped", "redirect_probability": 0.2},
    }
    for way, settings in ways.items():
        for question in ("count numbers", "grouping sets"):
            yield run(
                f"{question}, {way} run",
                kind,
                few | settings,
                randomizer=None,
                views=views,
                question=question,
                played=EVERY_FAULT,
                missing=("a scrambler's messages", "a compute node"),
            )
        yield run(
            f"noise in the result, {way} run",
            kind,
            few | settings | {"release_epsilon": 1.0},
            randomizer=None,
            views=views,
            question="sums in groups",
            played=(CALM, STORMY),
        )
    budgets: dict[str, dict[str, Any]] = {
        "no limits": {},
        "few channels": {"limits": {"max_connections": 40}},
        "few messages": {"limits": {"max_messages": 1500}},
        "few extra people": {"limits": {"max_extra_people": 0.2}},
        "lies given": {"settings": {"redirect_probability": 0.05}},
        "groups given": {"settings": {"sources": 50}},
        "one set each": {"settings": {"sets_per_person": "one"}},
    }
    for way, facts in budgets.items():
        yield Case(
            f"{kind}, tuned with {way}",
            kind,
            {"targets": 4},
            randomizer=None,
            views=("network", "network+scrambler"),
            question="grouping sets",
            simulated=False,
            delta=1e-4,
            epsilon=1.0,
            facts={"people": 200, "tuned": True} | facts,
        )


CASES: dict[str, tuple[Case, ...]] = {
    each.__name__: tuple(each())
    for each in (
        local,
        trusted_shuffle,
        check_in,
        network_shuffle,
        order_shuffle,
        token_walk,
        scrambled_query,
    )
}
"""The cases of each protocol; a protocol's values are in the file of this name."""
