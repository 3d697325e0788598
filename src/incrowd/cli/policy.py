"""``incrowd device policy``: write a policy, check it, and say what it lets curators learn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from incrowd.cli.output import Format, FormatOption, emit, note, write_text
from incrowd.errors import InvalidParameter

if TYPE_CHECKING:
    from rich.console import Console

    from incrowd.live.policy import ColumnRule, Policy

app = typer.Typer(help="Write and check owners' policies.", no_args_is_help=True)


@dataclass(frozen=True)
class _Suggested:
    """Suggested settings of a policy; costs are those of one survey."""

    columns: dict[str, ColumnRule]
    protocols: tuple[str, ...] = ("network-shuffle", "trusted-shuffle")
    view: str = "curator"
    epsilon: float = 1.0
    delta: float = 1e-6
    local_epsilon: float = 4.0


_SURVEYS = 4
"""Number of such surveys that the budget for life allows."""
_KEY_SHOWN = 16

PolicyArgument = Annotated[Path, typer.Argument(help="A policy, usually policy.toml.")]


@app.command()
def init(
    source: Annotated[
        Path, typer.Argument(help="A public schema of columns, or a survey file; no data is read.")
    ],
    curator: Annotated[
        list[str] | None,
        typer.Option(help="Identity key of a curator who may ask, ed25519:…; may be repeated."),
    ] = None,
    output: Annotated[Path, typer.Option(help="File to write.")] = Path("policy.toml"),
    protocol: Annotated[
        list[str] | None,
        typer.Option(help="Protocol that curators may use; by default that of the survey."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Budget for life: ε; by default that of four surveys.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Budget for life: δ; by default that of four surveys.")
    ] = None,
    local_epsilon: Annotated[
        float | None,
        typer.Option(help="Budget for life if everybody else colludes; by default of two surveys."),
    ] = None,
    max_epsilon: Annotated[
        float | None, typer.Option(help="Most ε of one survey; by default the survey's, or 1.")
    ] = None,
    max_local_epsilon: Annotated[
        float | None,
        typer.Option(help="The same if everybody else colludes; by default the survey's, or 4."),
    ] = None,
    min_crowd: Annotated[int, typer.Option(help="Smallest crowd to take part in.")] = 100,
    assume_colluding: Annotated[
        float, typer.Option(help="Share of the people asked who may help a curator.")
    ] = 0.1,
) -> None:
    """Write a policy with the columns of a schema or survey, explained key by key.

    Never write it because of an answer: curators see what a policy allows.
    """
    from incrowd.live.policy import Allowance, CrowdRule, CuratorRule, PerDay, Policy, Wrong
    from incrowd.live.policy_file import parse_policy
    from incrowd.live.policy_write import policy_text
    from incrowd.protocols import PROTOCOLS

    found = _suggested(source)
    columns = found.columns
    most = found.epsilon if max_epsilon is None else max_epsilon
    locally = found.local_epsilon if max_local_epsilon is None else max_local_epsilon
    try:
        budget = Allowance(
            epsilon=_SURVEYS * most if epsilon is None else epsilon,
            delta=_SURVEYS * found.delta if delta is None else delta,
            local_epsilon=2 * locally if local_epsilon is None else local_epsilon,
            view=found.view,
            per_day=PerDay(epsilon=most, surveys=_SURVEYS),
        )
        entries = tuple(
            CuratorRule(
                key=key,
                columns=tuple(columns),
                max_epsilon=most,
                max_local_epsilon=locally,
                protocols=tuple(protocol or found.protocols),
            )
            for key in curator or []
        )
        crowd = CrowdRule(min=min_crowd, assume_colluding=assume_colluding)
        made = Policy(version=1, budget=budget, crowd=crowd, curator=entries, column=columns)
    except Wrong as error:
        raise InvalidParameter(f"the policy cannot be written: {error}") from error
    text = policy_text(made, explained=True)
    # What was written is what will be read.
    parse_policy(text, str(output), PROTOCOLS)
    write_text(output, text, "policy")
    note(f"wrote {output}: read it, then 'incrowd device policy show {output}'")
    if not entries:
        note("no curator may ask yet: give --curator, or add a [[curator]] entry")
    for name, rule in columns.items():
        if rule.public:
            note(f"{name} may leave in the clear: remove public = true if not everybody may know")


@app.command()
def check(file: PolicyArgument, format: FormatOption = Format.table) -> None:
    """Say whether a policy can be used, and what its owner may not have meant."""
    from incrowd.cli.policy_words import policy_warnings
    from incrowd.report.terminal import facts_table

    policy = _read(file)
    counts = {"curators": len(policy.curator), "columns": len(policy.column)}
    warnings = list(policy_warnings(policy))
    told = [
        ("policy", f"{file} can be used"),
        *((name, str(number)) for name, number in counts.items()),
        *(("note", each) for each in warnings),
    ]
    payload = {"policy": str(file), **counts, "warnings": warnings}
    emit(payload, lambda console: console.print(facts_table(told)), format)


@app.command()
def show(file: PolicyArgument, format: FormatOption = Format.table) -> None:
    """Say in words what each curator could learn at most."""
    from incrowd.cli.policy_words import describe_policy
    from incrowd.report.terminal import facts_table

    payload = {"policy": str(file), **describe_policy(_read(file))}

    def render(console: Console) -> None:
        for each in payload["curators"]:
            title = f"Curator {each['key'][:_KEY_SHOWN]}…"
            words = enumerate(each["words"])
            console.print(facts_table((title * (not index), word) for index, word in words))
            console.print()
        facts = [("Together", payload["together"]), ("Consent", payload["consent_words"])]
        facts += [("Note", each) for each in payload["warnings"]]
        console.print(facts_table(facts))

    emit(payload, render, format)


def _read(file: Path) -> Policy:
    from incrowd.live.policy_file import read_policy
    from incrowd.protocols import PROTOCOLS

    return read_policy(file, PROTOCOLS)


def _suggested(source: Path) -> _Suggested:
    """Return columns and costs by a schema or a survey file; no data is read."""
    from incrowd import toml
    from incrowd.live.policy_write import column_rule, question_columns
    from incrowd.survey.parse import read
    from incrowd.survey.pipeline import completed, protocol_kind
    from incrowd.survey.questions import column_of, questions_of, task_of
    from incrowd.tasks import Schema
    from incrowd.tasks.registry import QUERY

    tables = toml.parse(str(source), toml.read_text(source, "schema or survey"))
    if "columns" in tables and "question" not in tables:
        columns = Schema.load(source).columns
        return _Suggested({each.name: column_rule(each.declared, public=False) for each in columns})
    document = read(source)
    questions = questions_of(document)
    task, kind = task_of(questions, document.budget.ask), protocol_kind(document, questions)
    budget, usual = completed(document, kind).budget, _Suggested({})
    return _Suggested(
        question_columns(task, column_of(questions)),
        (kind.kind,),
        budget.view,
        budget.epsilon,
        budget.delta,
        # Compute nodes of a query read tuples: nothing is left if all parties collude.
        math.inf if task.kind == QUERY else budget.local_epsilon or usual.local_epsilon,
    )
