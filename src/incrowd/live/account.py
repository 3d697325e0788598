"""The account of a state directory, for its owner to read: spent, reserved, declined.

It is read from the journal while the process that writes it may run, and holds no answer: none is
ever written there before the report is drawn, and reports are not shown.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import msgspec

from incrowd.errors import FileUnreadable, InvalidParameter
from incrowd.live.journal import Journal
from incrowd.live.ledger import DECLINED, Ledger, Line, Refusal
from incrowd.live.policy import key_text
from incrowd.live.service import JOURNAL_FILE

_DIGITS = 32


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One survey in the account of one device."""

    device: str
    """Identity key of the device."""
    survey: str
    curator: str
    """Identity key of the curator; empty where it is unknown."""
    question: str
    """Words of the only question, or the title of several."""
    questions: tuple[str, ...] = ()
    """Words of each of several questions."""
    state: Literal["charged", "reserved", "declined"]
    at: float
    """Time in seconds since 1970."""
    epsilon: float | None = None
    """ε towards the view that was asked for, charged or reserved."""
    delta: float | None = None
    local_epsilon: float | None = None
    why: str = ""
    """Reason of a refusal."""


def read_account(state: Path, view: str = "curator", now: float | None = None) -> list[Item]:
    """Everything in the account, device by device, in order of time.

    Args:
        state: The state directory of the devices.
        view: Parties towards whom ε and δ are given.
        now: Time at which reservations count; by default that of the machine.

    """
    path = state / JOURNAL_FILE
    if not path.exists():
        raise FileUnreadable(f"there is no journal in {state}: name the --state of a device")
    found: list[Item] = []
    with Journal(path, readonly=True) as journal:
        ledger = Ledger(journal)
        moment = time.time() if now is None else now
        for owner in journal.owners():
            items = [_priced(owner, line, view, "charged") for line in ledger.lines(owner)]
            items += [
                _priced(owner, each.line, view, "reserved")
                for each in ledger.reserved(owner, moment)
            ]
            for survey, facts in journal.facts(owner).items():
                if DECLINED in facts:
                    items.append(_declined(owner, survey, facts[DECLINED]))
            found += sorted(items, key=lambda each: each.at)
    return found


def chosen_survey(state: Path, prefix: str) -> bytes:
    """The reserved survey whose identifier begins with these digits."""
    wanted = prefix.lower()
    known = {each.survey for each in read_account(state) if each.state == "reserved"}
    found = sorted(each for each in known if each.startswith(wanted))
    if len(found) == 1:
        return bytes.fromhex(found[0])
    if len(wanted) == _DIGITS and not found:
        raise InvalidParameter(
            f"survey {prefix} is not waiting to start here: 'incrowd ledger' lists those that are"
        )
    raise InvalidParameter(
        f"{len(found)} surveys that wait to start here begin with {prefix!r}: 'incrowd ledger' "
        "lists them; give more digits"
    )


def _priced(owner: bytes, line: Line, view: str, state: Literal["charged", "reserved"]) -> Item:
    epsilon, delta = line.cost(view)
    return Item(
        device=owner.hex(),
        survey=line.survey.hex(),
        curator=key_text(line.curator) if line.curator else "",
        question=line.question,
        questions=line.questions,
        state=state,
        at=line.at,
        epsilon=epsilon,
        delta=delta,
        local_epsilon=line.epsilon0,
    )


def _declined(owner: bytes, survey: bytes, encoded: bytes) -> Item:
    told = msgspec.msgpack.decode(encoded, type=Refusal)
    return Item(
        device=owner.hex(),
        survey=survey.hex(),
        curator=key_text(told.curator) if told.curator else "",
        question=told.question,
        questions=told.questions,
        state="declined",
        at=told.at,
        why=told.why,
    )
