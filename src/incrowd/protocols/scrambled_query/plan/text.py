"""Descriptions of plans in words, and as text for a terminal; :mod:`.svg` draws them.

All show the same: senders and receivers, the data that decide where a message goes, the routing
that hides it, and the readers of tuples in the clear. No bound is computed here; the words follow
from the charges of :mod:`.dependency`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from incrowd.errors import NotProven
from incrowd.protocols.scrambled_query.plan.dependency import Charge, charges

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.plan.model import Cluster, Plan, Stage

_COLUMNS = 100
_SHOWN = 6
_NOUNS = {
    "source": ("source", "sources"),
    "scrambler": ("scrambler", "scramblers"),
    "compute": ("compute node", "compute nodes"),
    "simple": ("node", "nodes"),
    "result": ("result", "results"),
}


def counted(stage: Stage) -> str:
    """Return the number and kind of a stage's nodes."""
    one, many = _NOUNS[stage.kind]
    return one if stage.nodes == 1 else f"{stage.nodes:,} {many}"


def _listed(names: Sequence[str]) -> str:
    """Join names in a sentence, without the middle of a long list."""
    if len(names) > _SHOWN:
        return f"{', '.join(names[: _SHOWN - 2])}, … and {names[-1]}"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _deciding(cluster: Cluster, heard: Iterable[str]) -> str:
    return _listed([*(["the sender's own tuple"] if cluster.by_own else []), *heard])


def explained(plan: Plan) -> list[str]:
    """Describe what an observer of the network can learn, and why not more."""
    lines = [
        "An observer of the network sees which node sends how many messages to which, and when; "
        "messages are sealed and of equal size, so that nothing is seen of what they say."
    ]
    fixed = [each.name for each in plan.clusters if not each.tells]
    if fixed:
        lines.append(f"{_listed(fixed)}: where these messages go depends on no data.")
    lines += [f"{names}: {what}." for names, what in _grouped(_deciders(plan))]
    for people in plan.peoples:
        hidden = charges(plan, people)
        lines += [f"{names}: {what}." for names, what in _grouped(_reasons(people, hidden))]
        lines += _shown(plan, people, hidden)
    if len(plan.peoples) > 1:
        lines.append(
            f"{_listed(plan.peoples)} are different people, so that each tuple is charged for its "
            "own part only. This holds because who is where was settled without a look at the data."
        )
    readers = [each.name for each in plan.stages if each.kind == "compute"]
    if readers:
        lines.append(
            f"Compute nodes ({_listed(readers)}) read the tuples that reach them in the clear: "
            "against them nothing is proven."
        )
    return lines


def _grouped(said: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Say the same of several names once."""
    found: dict[str, list[str]] = {}
    for name, what in said:
        found.setdefault(what, []).append(name)
    return [(_listed(names), what) for what, names in found.items()]


def _deciders(plan: Plan) -> Iterator[tuple[str, str]]:
    for each in plan.clusters:
        if each.tells and each.routing is not None:
            by = _deciding(each, ["what the sender has heard"] if each.heard else [])
            words = each.routing.words()
            yield each.name, f"where a message goes depends on {by}; what hides it: {words}"


def _reasons(people: str, found: Iterable[Charge]) -> Iterator[tuple[str, str]]:
    for charge in found:
        one, many = charge.changes == 1, f"{charge.changes:,}"
        if charge.means == "noise":
            records = "one record behind what is released may change"
            if not one:
                records = f"{many} records may change, its own and those it may change places with"
            yield charge.name, f"a tuple of {people} is charged for the noise: {records}"
            continue
        changed = "one message" if one else f"up to {many} messages"
        because = "only lies protect it, as who lied shows in what comes later"
        if charge.means == "mixing":
            because = "all that mixes it with others protects it"
        yield charge.name, f"a tuple of {people} changes {changed}, and {because}"


def _shown(plan: Plan, people: str, hidden: Sequence[Charge]) -> list[str]:
    """Describe what the result tells besides."""
    try:
        seen = charges(plan, people, released=True)
    except NotProven:
        return [f"The result has no noise: a party that sees it may learn anything about {people}."]
    names = {each.name for each in hidden}
    more = [each for each in seen if each.name not in names]
    return [
        f"{said}: where the result is seen as well, {what}."
        for said, what in _grouped(_reasons(people, more))
    ]


def drawn_as_text(plan: Plan) -> str:
    """Draw each stage with its clusters, in order; no line is wider than 100 columns."""
    lines: list[str] = []
    for stage in plan.ordered:
        said = stage.name + ("" if stage.kind == "result" else f" · {counted(stage)}")
        if stage.kind == "source":
            said += f", one tuple each of {stage.people}"
        if stage.kind == "compute":
            said += ", read tuples in the clear"
        if stage.release:
            said += f", send on with noise, ε = {stage.release:.4g}"
        lines += _wrapped(said, "", "  ")
        leaving = plan.leaving(stage.name)
        for cluster in leaving:
            first, rest = ("└─ ", "     ") if cluster is leaving[-1] else ("├─ ", "│    ")
            lines += _wrapped(_arrow(plan, cluster), first, rest)
    return "\n".join(lines) + "\n"


def _arrow(plan: Plan, cluster: Cluster) -> str:
    target = plan.stage(cluster.targets)
    if cluster.routing is None:
        kind = "to everyone" if cluster.everyone else "fixed"
        return f"{cluster.name} ──▶ {target.name} ({kind})"
    through = cluster.through
    way = f" ──▶ {through} ({plan.stage(through).nodes:,})" if through else ""
    if not cluster.tells:
        return f"{cluster.name}{way} ──▶ {target.name} (the only target)"
    by = _deciding(cluster, (f"what came with {name}" for name in cluster.heard))
    return f"{cluster.name}{way} ══▶ {target.name}: by {by}; {cluster.routing.words()}"


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, _COLUMNS, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
