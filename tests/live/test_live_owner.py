"""Owners beside a running device: they consent, pause, withdraw, and read their ledger."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from incrowd.cli import main
from incrowd.errors import FileUnreadable
from incrowd.live.control import CONTROL_FILE, Control, Wishes
from incrowd.live.journal import Fact, Journal
from incrowd.live.ledger import DECLINED, Ledger, Line, Refusal, Reservation
from incrowd.live.policy import ColumnRule, Consent
from incrowd.live.service import JOURNAL_FILE
from incrowd.protocols.local.spec import Local
from incrowd.randomizers import KRR
from incrowd.tasks.histogram import Histogram
from tests.live.crowds import Crowd, Process, crowd, until
from tests.live.policies import wide
from tests.live.worlds import LiveHub

ASKED = Histogram(categories=("no", "yes"))
COLUMNS = {"cycles": ColumnRule(type="category", values=ASKED.categories)}
YES, NO_ANSWER = 1, 2
ASK = Consent(mode="ask")
LEAVE = Consent(mode="ask", on_refusal="leave")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.stop()


async def hosted(people: Crowd, state: Path, who: range, **policy: object) -> Process:
    """A process with a state directory as the program makes it."""
    state.mkdir()
    rules = partial(wide, columns=COLUMNS, **policy)
    return await people.process("journal", who, folder=state, policy=rules)


def straight(people: int) -> Local:
    """Reports that say what was answered, in all but 10⁻¹³ of all cases."""
    return Local(KRR(categories=3, epsilon=30.0), n=people)


def told(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict[str, object]]:
    assert main([*map(str, words), "--format", "json"]) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)["surveys"]
    return found


def test_owner_who_is_silent_reports_no_answer_and_is_not_told_apart(hub, tmp_path, capsys):
    async def main_() -> None:
        async with crowd(hub, tmp_path, 6) as people:
            said = await hosted(people, tmp_path / "said", range(3), consent=ASK)
            silent = await hosted(people, tmp_path / "silent", range(3, 6), consent=ASK)
            proposal = await people.offered(protocol=straight(6), question=ASKED)
            await people.joined(proposal)
            survey = proposal.survey.hex()
            (waiting,) = {
                each["survey"]
                for each in told(capsys, "device", "consent", "--state", tmp_path / "said")
            }
            assert waiting == survey
            assert (
                main(["device", "consent", survey[:8], "--yes", "--state", str(tmp_path / "said")])
                == 0
            )
            run = await people.conclude(await people.begin(proposal))
            (reports,) = run.collected.rounds
            assert Counter(reports.tolist()) == {YES: 3, NO_ANSWER: 3}
            sent = {
                each.parties[proposal.survey].statistics.cells
                for process in (said, silent)
                for each in process.devices.values()
            }
            assert len(sent) == 1
            assert all(
                len(process.lines(person)) == 1
                for process in (said, silent)
                for person in process.people
            )

    asyncio.run(main_())


def test_owner_who_leaves_on_refusal_begins_nothing_and_spends_nothing(hub, tmp_path):
    async def main_() -> None:
        async with crowd(hub, tmp_path, 4) as people:
            leaving = await hosted(people, tmp_path / "leaving", range(1), consent=LEAVE)
            await hosted(people, tmp_path / "others", range(1, 4))
            proposal = await people.offered(protocol=straight(4), question=ASKED)
            run = await people.conclude(await people.begin(proposal))
            assert run.collected.received == 3
            await until(lambda: leaving.refusals(proposal.survey) == ["consent"])
            assert leaving.silent(proposal.survey)

    asyncio.run(main_())


def test_paused_device_declines_until_it_is_resumed(hub, tmp_path):
    async def main_() -> None:
        async with crowd(hub, tmp_path, 3) as people:
            process = await hosted(people, tmp_path / "state", range(3))
            assert main(["device", "pause", "--state", str(tmp_path / "state")]) == 0
            first = await people.offered(protocol=straight(3), question=ASKED)
            await until(lambda: process.refusals(first.survey) == ["paused"] * 3)
            assert main(["device", "resume", "--state", str(tmp_path / "state")]) == 0
            second = await people.offered(protocol=straight(3), question=ASKED)
            await people.joined(second)
            # A pause also keeps from beginning what was joined before.
            assert main(["device", "pause", "--state", str(tmp_path / "state")]) == 0
            await people.start(second)
            await until(lambda: process.refusals(second.survey) == ["paused"] * 3)
            assert process.silent(second.survey)

    asyncio.run(main_())


def test_withdrawal_before_the_start_frees_the_reservation_and_keeps_from_beginning(
    hub, tmp_path, capsys
):
    async def main_() -> None:
        async with crowd(hub, tmp_path, 3) as people:
            state = tmp_path / "state"
            process = await hosted(people, state, range(3))
            proposal = await people.offered(protocol=straight(3), question=ASKED)
            await people.joined(proposal)
            leave = ["device", "withdraw", proposal.survey.hex()[:6], "--state", str(state)]
            assert main(leave) == 0
            for device in process.devices.values():
                await device.withdraw()
            assert process.refusals(proposal.survey) == ["withdrawn"] * 3
            assert {each["state"] for each in told(capsys, "ledger", "--state", state)} == {
                "declined"
            }
            await people.start(proposal)
            assert process.silent(proposal.survey)
            assert main(leave) != 0

    asyncio.run(main_())


def test_ledger_lists_charges_reservations_and_refusals_while_the_device_runs(
    hub, tmp_path, capsys
):
    async def main_() -> None:
        async with crowd(hub, tmp_path, 3) as people:
            state = tmp_path / "state"
            await hosted(people, state, range(3))
            charged = await people.offered(protocol=straight(3), question=ASKED)
            await people.conclude(await people.begin(charged))
            reserved = await people.offered(protocol=straight(3), question=ASKED)
            await people.joined(reserved)
            other = Histogram(categories=("yes", "no"))
            declined = await people.offered(protocol=straight(3), question=other)
            await until(lambda: len(told(capsys, "ledger", "--state", state)) == 9)
            found = told(capsys, "ledger", "--state", state)
            by_state = {each["state"]: each for each in found}
            assert by_state["charged"]["survey"] == charged.survey.hex()
            assert by_state["reserved"]["survey"] == reserved.survey.hex()
            assert by_state["declined"]["survey"] == declined.survey.hex()
            assert by_state["declined"]["epsilon"] is None
            assert "another domain" in str(by_state["declined"]["why"])
            assert by_state["charged"]["question"] == "Do you cycle?"
            assert str(by_state["charged"]["curator"]).startswith("ed25519:")
            (promised,) = (each for each in charged.spec.promises if each.view == "curator")
            assert by_state["charged"]["epsilon"] == promised.epsilon
            assert main(["ledger", "--state", str(state)]) == 0
            assert "declined" in capsys.readouterr().out

    asyncio.run(main_())


SEVERAL = ("How do you get to work?", "How long does it take?")


@pytest.mark.parametrize(
    ("title", "shown"), [("Work", ["Work"]), ("; ".join(SEVERAL), [])], ids=["titled", "untitled"]
)
def test_ledger_and_consent_show_the_words_of_each_of_several_questions(
    tmp_path, capsys, monkeypatch, title, shown
):
    monkeypatch.setenv("COLUMNS", "160")
    owner, survey, prices = b"o" * 32, b"s" * 16, [("curator", 0.5, 1e-7)]
    line = Line(1.7e9, survey, b"d" * 32, title, 2.0, 0.0, prices, b"c" * 32, SEVERAL)
    refusal = Refusal(1.7e9, title, b"c" * 32, "policy", "not allowed", SEVERAL)
    with Journal(tmp_path / JOURNAL_FILE) as journal:
        batch = journal.batch()
        batch.facts += [
            Ledger(journal).reserve(owner, Reservation(line, 4e9)),
            Fact(owner, b"t" * 16, DECLINED, msgspec.msgpack.encode(refusal)),
        ]
        journal.commit(batch)
    for words, items in ((("ledger",), 2), (("device", "consent"), 1)):
        found = told(capsys, *words, "--state", tmp_path)
        assert [(each["question"], each["questions"]) for each in found] == [
            (title, list(SEVERAL))
        ] * items
        assert main([*words, "--state", str(tmp_path)]) == 0
        out = capsys.readouterr().out
        for each in (*shown, *(f"• {each}" for each in SEVERAL)):
            assert out.count(each) == items
        assert "; " not in out


def test_ledger_of_no_device_is_refused_in_one_line(tmp_path, capsys):
    assert main(["ledger", "--state", str(tmp_path)]) != 0
    assert "there is no journal" in capsys.readouterr().err


def test_wishes_when_changed_by_two_commands_keep_both(tmp_path):
    one, other = Control(tmp_path), Control(tmp_path)
    assert one.wishes() == Wishes()
    one.change(lambda wishes: wishes.with_pause(True))
    other.change(lambda wishes: wishes.with_consent(b"s" * 16, True))
    one.change(lambda wishes: wishes.with_withdrawal(b"t" * 16))
    for each in (one, other, Control(tmp_path)):
        found = each.wishes()
        assert found.paused
        assert found.consents(b"s" * 16)
        assert not found.consents(b"t" * 16)
        assert found.withdraws(b"t" * 16)
    assert (tmp_path / CONTROL_FILE).stat().st_mode & 0o777 == 0o600


def test_wishes_that_cannot_be_read_are_never_taken_for_none(tmp_path):
    (tmp_path / CONTROL_FILE).write_text("{")
    with pytest.raises(FileUnreadable, match="wishes"):
        Control(tmp_path).wishes()
