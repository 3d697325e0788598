"""``incrowd check --upgrade``: surveys of version 1 become surveys of version 2."""

from pathlib import Path

import pytest
from cli_helpers import EXAMPLES, Call, assert_fails

from incrowd import errors
from incrowd.protocols.capabilities import Tunable
from incrowd.protocols.settings import settings_type
from incrowd.survey.parse import SurveyDocument, parse
from incrowd.survey.pipeline import protocol_kind
from incrowd.survey.questions import questions_of

HISTOGRAM = """\
# How do people get to work?
# Ask them in autumn.

[task]  # the question
kind = "histogram"
question = "How do people get to work?"
# One row per person.
data = "people.csv"
column = "budget"
categories = [
    "bus",  # and tram
    # no boats
    "bike",
    "budget",
]

[budget]
epsilon = 2.0  # of the curator
delta = 1e-6

# Nobody but the shuffler sees who said what.
[protocol]
kind = "shuffle"

# Noise.
[randomizer]
kind = "krr"  # ε0 is solved for
# the end
"""
QUERY = '''\
[task]
kind = "query"
data = "patients.csv"
schema = "patients.toml"
sql = """
SELECT age_range, AVG(insulin)
FROM patients
-- [budget] # is no table
GROUP BY age_range
"""

[budget]
epsilon = 1.0
delta = 1e-4

[protocol]
kind = "scrambler"
targets = 8
spares = 1
answers = "all"  # grouping sets

[limits]
load = 100000
channels = 600
consents = 0.5
'''
CHECK_IN = """\
[task]
kind = "histogram"
data = "people.csv"
column = "mode"
categories = ["bus", "bike"]
[budget]
epsilon = 1.0
delta = 1e-6
[protocol]
kind = "check-in"
rate = 0.1
least = 0.9
rounds = "budget"        # as many as it pays for
[randomizer]
epsilon = 3.0
"""
NETWORK = """\
version = 1

[task]
kind = "mean"
data = "people.csv"
column = "minutes"
bounds = [0, 60]

[budget]
epsilon = 1.0
delta = 1e-6

[protocol]
kind = "network-shuffle"
graph = "regular:8"
rounds = "auto"
mode = "single"
within = 1.05
share = 0.9
peers = 3

[live]
cover = true
settle = 4
patience = 30.0
"""
TOKEN = """\
[task]
kind = "mean"
data = "people.csv"
column = "minutes"
bounds = [0, 60]

[budget]
epsilon = 1.0
delta = 1e-6
view = "peer"

[protocol]
kind = "token-walk"
steps = 200
spread = false
"""
SURVEYS = {
    "histogram": HISTOGRAM,
    "query": QUERY,
    "check-in": CHECK_IN,
    "network-shuffle": NETWORK,
    "token-walk": TOKEN,
}


def accepted(text: str) -> SurveyDocument:
    """Parse a survey with every key of all of its tables."""
    document = parse(text, EXAMPLES / "survey.toml")
    kind = protocol_kind(document, questions_of(document))
    settings = document.protocol.without("kind")
    if settings.values.get("rounds") == "calibrate":
        settings = settings.without("rounds")
    settings.build(settings_type(kind), n=1000)
    if issubclass(kind, Tunable):
        document.limits.known(kind.limits_type.__struct_fields__)
    return document


@pytest.mark.parametrize("name", SURVEYS)
def test_upgraded_survey_is_one_of_version_2(incrowd: Call, name: str) -> None:
    Path("old.toml").write_text(SURVEYS[name])
    ended = incrowd("check", "old.toml", "--upgrade")
    assert (ended.code, ended.err) == (0, "")
    accepted(ended.out)


@pytest.mark.parametrize("name", SURVEYS)
def test_upgraded_survey_keeps_every_comment(incrowd: Call, name: str) -> None:
    Path("old.toml").write_text(SURVEYS[name])
    text = incrowd("check", "old.toml", "--upgrade").out
    comments = [line.partition("#")[2] for line in SURVEYS[name].splitlines() if "#" in line]
    assert sorted(line.partition("#")[2] for line in text.splitlines() if "#" in line) == sorted(
        comments
    )


def test_comments_stay_with_what_they_are_about(incrowd: Call) -> None:
    Path("old.toml").write_text(HISTOGRAM)
    assert (
        incrowd("check", "old.toml", "--upgrade").out
        == """\
# How do people get to work?
# Ask them in autumn.

version = 2

[data]
# One row per person.
file = "people.csv"

[[question]]  # the question
kind = "histogram"
text = "How do people get to work?"
column = "budget"
categories = [
    "bus",  # and tram
    # no boats
    "bike",
    "budget",
]

# Noise.
[question.randomizer]
kind = "krr"  # ε0 is solved for
# the end

[budget]
epsilon = 2.0  # of the curator
delta = 1e-6

# Nobody but the shuffler sees who said what.
[protocol]
kind = "trusted-shuffle"
"""
    )


def test_settings_have_their_names_of_version_2(incrowd: Call) -> None:
    def upgraded(text: str) -> SurveyDocument:
        Path("old.toml").write_text(text)
        return parse(incrowd("check", "old.toml", "--upgrade").out, Path("new.toml"))

    query = upgraded(QUERY)
    assert query.data.values == {"file": "patients.csv", "schema": "patients.toml"}
    assert "-- [budget] # is no table\n" in query.questions[0].values["sql"]
    assert query.protocol.values == {
        "kind": "scrambled-query",
        "targets": 8,
        "standby_scramblers": 1,
        "sets_per_person": "all",
    }
    assert query.limits.values == {
        "max_messages": 100000,
        "max_connections": 600,
        "max_extra_people": 0.5,
    }
    check_in = upgraded(CHECK_IN).protocol.values
    assert (check_in["rounds"], check_in["min_participants"]) == ("calibrate", 0.9)
    network = upgraded(NETWORK)
    walk = network.protocol.values
    assert (walk["hand_in"], walk["random_peers"], walk["rounds"]) == ("single", 3, "auto")
    assert (network.live.grace_rounds, network.live.timeout) == (4, 30.0)
    assert upgraded(TOKEN).protocol.values["split_noise"] is False


def test_upgraded_survey_runs(incrowd: Call) -> None:
    Path("people.csv").write_text("mode\n" + "bus\nbike\ncar\n" * 20)
    Path("old.toml").write_text(
        '[task]\nkind = "histogram"\ndata = "people.csv"\ncolumn = "mode"\n'
        'categories = ["bus", "bike"]\n[budget]\nepsilon = 2.0\ndelta = 1e-6\n'
        '[protocol]\nkind = "local"\n'
    )
    assert incrowd("check", "old.toml", "--upgrade", "--output", "new.toml").code == 0
    ended = incrowd("run", "new.toml", "--no-report", "--seed", 1)
    assert ended.code == 0, ended.err


@pytest.mark.parametrize("command", ["run", "check"])
def test_survey_of_version_1_is_refused_with_the_command_that_upgrades_it(
    incrowd: Call, command: str
) -> None:
    Path("old.toml").write_text(HISTOGRAM)
    said = ("old.toml", "version 1", "incrowd check --upgrade FILE")
    assert_fails(incrowd(command, "old.toml"), errors.InvalidConfig, *said)


def test_upgrade_never_replaces_a_file(incrowd: Call) -> None:
    Path("old.toml").write_text(HISTOGRAM)
    ended = incrowd("check", "old.toml", "--upgrade", "--output", "old.toml")
    assert_fails(ended, errors.FileNotWritable, "old.toml exists already", "--output")
    assert Path("old.toml").read_text() == HISTOGRAM


WRONG = [
    ("version = 2\n[[question]]\n", errors.InvalidConfig, "of version 2 already"),
    ("[budget]\nepsilon = 1\n", errors.InvalidConfig, "no survey: it has no [task]"),
    ('task = {kind = "mean"}\n', errors.InvalidConfig, "task: write it as a table [task]"),
    ('task.kind = "mean"\n', errors.InvalidConfig, "task: write it as a table [task]"),
    ('[task]\nkind = "mean"\n[budget\n', errors.MalformedConfig, "line 3, column 8"),
]


@pytest.mark.parametrize(("text", "kind", "said"), WRONG)
def test_upgrade_refuses_text_that_is_no_survey_of_version_1(
    incrowd: Call, text: str, kind: type[errors.IncrowdError], said: str
) -> None:
    Path("old.toml").write_text(text)
    ended = incrowd("check", "old.toml", "--upgrade", "--output", "new.toml")
    assert_fails(ended, kind, "old.toml", said)
    assert not Path("new.toml").exists()
