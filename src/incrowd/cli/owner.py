"""Commands of a device's owner beside the running device: ledger, consent, pause, withdraw.

They read the journal of a state directory and leave wishes there; the process that runs the devices
acts on them. None of them needs a key or the hub.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from incrowd.cli.output import Format, FormatOption, emit, note
from incrowd.errors import FileUnreadable

if TYPE_CHECKING:
    from rich.console import Console

    from incrowd.live.account import Item

StateOption = Annotated[Path, typer.Option(help="Directory for the journal and the ledger.")]
_SHORT = 8


def ledger(
    state: StateOption,
    view: Annotated[str, typer.Option(help="Parties towards whom ε and δ are given.")] = "curator",
    format: FormatOption = Format.table,
) -> None:
    """List surveys that devices answered, reserved or declined; they may run meanwhile."""
    from incrowd.cli.options import named_by_flag
    from incrowd.live.account import read_account
    from incrowd.views import view_name

    with named_by_flag(("view",)):
        towards = view_name(view)
    items = read_account(state, towards)
    payload = {"view": towards, "surveys": msgspec.to_builtins(items)}
    emit(payload, lambda console: _draw(console, items), format)


def consent(
    state: StateOption,
    survey: Annotated[
        str | None, typer.Argument(help="First digits of a survey; without it, list them.")
    ] = None,
    yes: Annotated[
        bool | None, typer.Option("--yes/--no", help="Consent, or refuse; silence is refusal.")
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """Consent to a survey that waits to start, or list those that do."""
    from incrowd.live.account import chosen_survey, read_account
    from incrowd.live.control import Control

    control = Control(state)
    if survey is None:
        items = [each for each in read_account(state) if each.state == "reserved"]
        said = control.wishes().consent
        listed = [msgspec.to_builtins(each) | {"consent": said.get(each.survey)} for each in items]
        emit({"surveys": listed}, lambda console: _draw(console, items), format)
        return
    if yes is None:
        raise typer.BadParameter("say --yes or --no", param_hint="'--yes/--no'")
    chosen = chosen_survey(state, survey)
    control.change(lambda wishes: wishes.with_consent(chosen, yes))
    note(f"survey {chosen.hex()}: {'consent is given' if yes else 'consent is refused'}")


def pause(state: StateOption) -> None:
    """Join nothing and begin nothing until resumed; surveys that have begun go on."""
    _paused(state, True)


def resume(state: StateOption) -> None:
    """Join surveys again."""
    _paused(state, False)


def withdraw(
    survey: Annotated[str, typer.Argument(help="First digits of a survey that was joined.")],
    state: StateOption,
) -> None:
    """Leave a survey before it starts; nothing is spent, and its curator sees who is missing."""
    from incrowd.live.account import chosen_survey
    from incrowd.live.control import Control

    chosen = chosen_survey(state, survey)
    Control(state).change(lambda wishes: wishes.with_withdrawal(chosen))
    note(f"survey {chosen.hex()} will not begin here")


def _paused(state: Path, paused: bool) -> None:
    from incrowd.live.control import Control

    # A wish in a folder that no device has would be heard by none.
    if not state.is_dir():
        raise FileUnreadable(f"there is no folder {state}: name the --state of a device")
    Control(state).change(lambda wishes: wishes.with_pause(paused))
    note(f"the devices of {state} are {'paused' if paused else 'not paused'}")


def _asked(item: Item) -> str:
    """Words of the only question, or a title and the words of each, a line each."""
    if not item.questions:
        return item.question
    # Several without a title are called by all of their words.
    title = [] if item.question == "; ".join(item.questions) else [item.question]
    return "\n".join([*title, *(f"• {each}" for each in item.questions)])


def _draw(console: Console, items: Sequence[Item]) -> None:
    from incrowd.report.format import up
    from incrowd.report.tables import TextTable
    from incrowd.report.terminal import text_table

    head = ("date", "survey", "curator", "question", "state", "ε", "δ", "local ε", "why")
    numbers, folded = ("ε", "δ", "local ε"), ("question", "why")
    rows = [
        (
            datetime.fromtimestamp(each.at, UTC).strftime("%Y-%m-%d"),
            each.survey[:_SHORT],
            each.curator.removeprefix("ed25519:")[:_SHORT],
            _asked(each),
            each.state,
            *map(up, (each.epsilon, each.delta, each.local_epsilon)),
            each.why,
        )
        for each in items
    ]
    words = frozenset(index for index, name in enumerate(head) if name not in numbers)
    table = text_table(TextTable(head, rows, words))
    for name, column in zip(head, table.columns, strict=True):
        column.no_wrap, column.overflow = name not in folded, "fold"
    console.print(table)
