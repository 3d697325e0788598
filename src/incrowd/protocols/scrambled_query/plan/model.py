"""Execution plans: senders and receivers of messages, and the data that decide their way.

A plan has *stages*, groups of nodes that do the same: sources, each with the tuple of one person;
scramblers; compute nodes; simple nodes, which pass on; a result. A *cluster* is all senders of one
stage that may send to the same targets, with the routing that hides where each message goes, or
none where that is fixed. Where messages go is decided by declared data: the sender's own tuple, and
messages of earlier clusters, which depend on all tuples that reached those. An iteration is
unrolled: each round has stages of its own, of the same people.

Everything else is derived (:mod:`.dependency`, ``docs/theory/plans.md``): which clusters one tuple
can change, in how many messages, what mixing still protects it, and so the privacy of the whole.

    >>> from incrowd.protocols.scrambled_query.theorems.mechanisms import Scrambler
    >>> plan = aggregate([Scrambler(20, 0.5, 600, 300)] * 2, 6000)
    >>> [each.name for each in plan.clusters if each.tells]
    ['set 1', 'set 2']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NoReturn, get_args

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.privacy.guarantee import Profile
from incrowd.protocols.scrambled_query.plan import dependency
from incrowd.protocols.scrambled_query.plan.svg import drawn_as_svg
from incrowd.protocols.scrambled_query.plan.text import drawn_as_text, explained
from incrowd.protocols.scrambled_query.theorems.mechanisms import Flooding, Routing

Answers = Literal["all", "one"]
"""Grouping sets that a person answers: all of them, or one that is drawn without looking."""

OWN = "own tuple"
"""The data that decide where a source's message goes, by default."""
Kind = Literal["source", "scrambler", "compute", "simple", "result"]
_PAGE = "(docs/theory/plans.md)"


@dataclass(frozen=True)
class Stage:
    """Nodes that do the same.

    ``people`` names whose tuples sources hold: stages with the same name are nodes of the same
    persons, each of whom has one node in each; different names are different persons. ``release``
    is the ε of pure noise in all that compute nodes of this stage send on, together, for one record
    of theirs changed, added or removed.
    """

    name: str
    kind: Kind
    nodes: int = 1
    people: str = ""
    release: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidParameter(
                f"stage {self.name!r}: {checks.did_you_mean(str(self.kind), get_args(Kind))}"
            )
        object.__setattr__(self, "nodes", checks.integer(self.nodes, f"nodes of {self.name}", 1))
        if self.kind == "source":
            object.__setattr__(self, "people", self.people or self.name)
        elif self.people:
            raise InvalidParameter(f"stage {self.name!r}: only sources hold tuples of people")
        if checks.number(self.release, f"release of {self.name}") < 0:
            raise InvalidParameter(f"stage {self.name!r}: release must not be negative")
        if self.release and self.kind not in ("compute", "simple"):
            raise InvalidParameter(f"stage {self.name!r}: only compute nodes release anything")


@dataclass(frozen=True)
class Cluster:
    """All messages of one stage that may go to the same targets.

    Without ``routing`` each sender has a fixed target, or all of them (``everyone``). With it,
    ``decided_by`` says what the true target depends on: :data:`OWN`, names of clusters that arrive
    at the senders, or both. ``through`` is the stage of scramblers.
    """

    name: str
    senders: str
    targets: str
    routing: Routing | None = None
    decided_by: tuple[str, ...] = (OWN,)
    through: str = ""
    everyone: bool = False

    @property
    def tells(self) -> bool:
        """Whether the targets of its messages may depend on data: not if there is one, or fixed."""
        return self.routing is not None and getattr(self.routing, "targets", 2) > 1

    @property
    def by_own(self) -> bool:
        """Whether the sender's tuple decides."""
        return OWN in self.decided_by

    @property
    def heard(self) -> tuple[str, ...]:
        """The clusters that decide where its messages go."""
        return tuple(each for each in self.decided_by if each != OWN)


@dataclass(frozen=True)
class Plan:
    """Stages and the clusters between them; refuses what is no plan."""

    stages: tuple[Stage, ...]
    clusters: tuple[Cluster, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        object.__setattr__(self, "clusters", tuple(self.clusters))
        _check_names([each.name for each in self.stages], "stage")
        _check_names([each.name for each in self.clusters], "cluster")
        for cluster in self.clusters:
            _check_cluster(self, cluster)
        if not self.peoples:
            raise InvalidParameter("a plan needs a source: people who have tuples")
        _ = self.ranks

    def stage(self, name: str) -> Stage:
        """One stage by its name."""
        return next(each for each in self.stages if each.name == name)

    def leaving(self, stage: str) -> tuple[Cluster, ...]:
        """The clusters whose senders are this stage."""
        return tuple(each for each in self.clusters if each.senders == stage)

    @property
    def peoples(self) -> tuple[str, ...]:
        """The owners of tuples."""
        found = (each.people for each in self.stages if each.kind == "source")
        return tuple(dict.fromkeys(found))

    @property
    def ordered(self) -> tuple[Stage, ...]:
        """The stages, each after all that send to it; scramblers stay out, they are in between."""
        return tuple(stage for rank in self.ranks for stage in rank)

    @cached_property
    def ranks(self) -> tuple[tuple[Stage, ...], ...]:
        """The stages in steps: each as early as those that send to it allow."""
        left = [each for each in self.stages if each.kind != "scrambler"]
        found: list[tuple[Stage, ...]] = []
        while left:
            waiting = {each.name for each in left}
            held = {each.targets for each in self.clusters if each.senders in waiting}
            ready = tuple(each for each in left if each.name not in held)
            if not ready:
                names = ", ".join(sorted(waiting & held))
                raise InvalidParameter(
                    f"messages go in a circle among {names}: give each round stages of its own"
                )
            found.append(ready)
            left = [each for each in left if each not in ready]
        return tuple(found)

    def profile(self, *, released: bool = False, colluders: int = 0) -> Profile:
        """The curve against an observer of all traffic and, where ``released``, of the result."""
        return dependency.profile(self, released=released, colluders=colluders)

    @property
    def theorem(self) -> str:
        """The bound that holds, and the page of its proof."""
        telling = [each.routing for each in self.clusters if each.tells]
        names = list(dict.fromkeys(each.theorem for each in telling if each is not None))
        if not names:
            return f"nothing depends on data {_PAGE}"
        noisy = any(stage.release for stage in self.stages)
        if len(telling) == 1 and not noisy:
            return names[0]
        joined = " and ".join(name.partition(" (docs/")[0] for name in names)
        return f"{joined}, composed over a plan {_PAGE}"

    def explain(self) -> list[str]:
        """Describe in words what an observer of the network can learn, and why not more."""
        return explained(self)

    def text(self) -> str:
        """Draw the plan for a terminal of 100 columns."""
        return drawn_as_text(self)

    def svg(self) -> str:
        """Draw the plan as a picture."""
        return drawn_as_svg(self)


def _check_names(names: Sequence[str], what: str) -> None:
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise InvalidParameter(f"every {what} needs a name, got {name!r}")
        if name == OWN:
            raise InvalidParameter(f"{name!r} cannot be the name of a {what}: it decides messages")
        if names.count(name) > 1:
            raise InvalidParameter(f"there are two {what}s called {name!r}: names must differ")


def _check_cluster(plan: Plan, cluster: Cluster) -> None:
    known = {each.name: each for each in plan.stages}

    def refuse(why: str) -> NoReturn:
        raise InvalidParameter(f"cluster {cluster.name!r}: {why}")

    for name in (cluster.senders, cluster.targets, *filter(None, (cluster.through,))):
        if name not in known:
            refuse(f"no stage is called {name!r}: {checks.did_you_mean(name, known)}")
    senders, targets = known[cluster.senders], known[cluster.targets]
    if senders.kind == "result":
        refuse(f"{senders.name} is a result, which sends nothing")
    if "scrambler" in (senders.kind, targets.kind):
        refuse("a scrambler is on the way, not an end: name it with through")
    if cluster.through and known[cluster.through].kind != "scrambler":
        refuse(f"{cluster.through} mixes nothing: it is no scrambler")
    if cluster.routing is None:
        return
    if cluster.everyone:
        refuse("what goes to everyone needs no routing: leave one out")
    if not cluster.decided_by:
        refuse("a routing hides what something decides: say what")
    if senders.release and cluster.heard:
        refuse(
            f"{senders.name} releases what it got with noise: let the stage after it "
            "decide, so that it is clear that the noise is in it"
        )
    if cluster.by_own and senders.kind != "source":
        refuse(f"{senders.name} has no tuple of its own: name the clusters that decide")
    arriving = [each.name for each in plan.clusters if each.targets == senders.name]
    for name in cluster.heard:
        if name not in arriving:
            hint = checks.did_you_mean(name, arriving) if arriving else "nothing arrives there"
            refuse(f"{name!r} does not arrive at {senders.name} and cannot decide: {hint}")
    among = getattr(cluster.routing, "targets", targets.nodes)
    if among != targets.nodes:
        refuse(f"its routing is for {among} targets, but {targets.name} has {targets.nodes}")
    sources = getattr(cluster.routing, "sources", None)
    scramblers = known[cluster.through].nodes if cluster.through else 0
    if sources is not None and cluster.through and scramblers * sources < senders.nodes:
        refuse(
            f"{scramblers} scramblers of {sources} sources each are too few for the "
            f"{senders.nodes} nodes of {senders.name}"
        )


# The plans of the paper.


def aggregate(
    routings: Sequence[Routing],
    people: int,
    *,
    sets_per_person: Answers = "all",
    release_epsilon: float = 0.0,
) -> Plan:
    """Plan a query with a routing per grouping set; ``release_epsilon`` is the ε of noise.

    With ``one`` set per person everyone answers one grouping set, which must be chosen without a
    look at the data: then every set is answered by people of its own.
    """
    if sets_per_person not in get_args(Answers):
        wrong = f"sets_per_person must be one of all, one, got {sets_per_person!r}"
        raise InvalidParameter(wrong, field="sets_per_person")
    if not routings:
        raise InvalidParameter("a query needs at least one grouping set")
    checks.crowd(people, "people")
    alone = sets_per_person == "one" and len(routings) > 1
    sharing = 1 if alone else len(routings)
    stages = [] if alone else [Stage("people", "source", people)]
    clusters: list[Cluster] = []
    for number, routing in enumerate(routings, 1):
        senders, some, compute = "people", people, f"compute {number}"
        if alone:
            senders = f"people of set {number}"
            some = max(1, -(-(people - number + 1) // len(routings)))
            stages.append(Stage(senders, "source", some))
        through = _scramblers(stages, routing, some, f"scramblers {number}")
        nodes = getattr(routing, "targets", 1)
        stages.append(Stage(compute, "compute", nodes, release=release_epsilon / sharing))
        clusters += [
            Cluster(f"set {number}", senders, compute, routing, through=through),
            Cluster(f"answers {number}", compute, "result"),
        ]
    stages.append(Stage("result", "result"))
    return Plan(tuple(stages), tuple(clusters))


def _scramblers(stages: list[Stage], routing: Routing, people: int, name: str) -> str:
    """Add the scramblers that a routing needs for these people; none where it needs none."""
    if isinstance(routing, Flooding):
        return ""
    stages.append(Stage(name, "scrambler", -(-people // routing.sources)))
    return name


def kmeans(routing: Routing, people: int, *, iterations: int, release: float = 0.0) -> Plan:
    """Plan k-means: everyone sends to the compute node of the nearest centroid in each round.

    ``release`` is the ε of noise in the centroids of each round; without it the messages of a round
    depend on everybody's tuples through the centroids of the rounds before.
    """
    checks.crowd(people, "people")
    targets: int = getattr(routing, "targets", 0)
    if not targets:
        raise InvalidParameter("k-means sends tuples: its routing needs targets")
    stages: list[Stage] = []
    clusters: list[Cluster] = []
    for index in range(1, checks.integer(iterations, "iterations", 1) + 1):
        senders, compute = f"people, round {index}", f"centroids {index}"
        stages.append(Stage(senders, "source", people, people="people"))
        through = _scramblers(stages, routing, people, f"scramblers {index}")
        stages.append(Stage(compute, "compute", targets, release=release))
        decided: tuple[str, ...] = (OWN,)
        if index > 1:
            before, update = f"centroids {index - 1}", f"update {index - 1}"
            clusters.append(Cluster(update, before, senders, everyone=True))
            decided = (OWN, update)
        clusters.append(Cluster(f"round {index}", senders, compute, routing, decided, through))
    stages.append(Stage("result", "result"))
    clusters.append(Cluster("final centroids", f"centroids {iterations}", "result"))
    return Plan(tuple(stages), tuple(clusters))
