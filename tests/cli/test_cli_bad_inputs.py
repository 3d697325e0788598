"""Bad inputs of all commands, one by one: a line that locates each and says how to mend it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cli_helpers import Call, assert_fails

from incrowd import errors

DATA = '[data]\nfile = "people.csv"'
MODE = '[[question]]\nid = "mode"\nkind = "histogram"\ncategories = ["bus", "bike", "car"]'
TIME = '[[question]]\nid = "time"\ncolumn = "minutes"\nkind = "mean"\nbounds = [0, 60]'
QUANTILES = TIME.replace("mean", "quantiles") + "\n{}"
PLACE = '[[question]]\nid = "place"\ncolumn = "mode"\nkind = "release"\ncategories = ["bus"]'
BUDGET = "[budget]\nepsilon = 2.0\ndelta = 1e-6"
ONE = f'{BUDGET}\nask = "one"'
LOCAL = '[protocol]\nkind = "local"'
SHUFFLE = '[protocol]\nkind = "trusted-shuffle"'
WALK = '[protocol]\nkind = "network-shuffle"\nrounds = 4\ngraph = "friends.csv"'
CHANNEL = f'{MODE}\n[question.randomizer]\nkind = "channel"\nmatrix = "channel.csv"'
PEOPLE = "name,mode,minutes\nann,bus,10\nben,car,20\ncid,bike,30\n"
SCHEMA = """\
table = "people"
[columns.mode]
type = "category"
values = ["bus", "bike", "car"]
[columns.hours]
type = "number"
low = 0
high = 24
"""
FRIENDS = "ann,ben\nben,cid\ncid,ann\n"


def survey(
    *questions: str,
    top: str = "version = 2",
    data: str = DATA,
    budget: str = BUDGET,
    protocol: str = LOCAL,
    more: str = "",
) -> str:
    return "\n\n".join([top, data, *(questions or (MODE,)), budget, protocol, more])


@dataclass(frozen=True)
class Bad:
    """A command over files, the kind of its error, and parts of the line that explains it."""

    words: tuple[str, ...]
    kind: type[errors.IncrowdError] | int
    said: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)


def run(
    text: str,
    kind: type[errors.IncrowdError] | int,
    *said: str,
    words: tuple[str, ...] = (),
    **files: str,
) -> Bad:
    """Run a survey; files are named without their ``.csv``."""
    named = {f"{name}.csv": content for name, content in files.items()}
    options = words or ("--no-report",)
    return Bad(("run", "survey.toml", *options), kind, said, {"survey.toml": text, **named})


def query(
    kind: type[errors.IncrowdError] | int,
    *said: str,
    sql: str = "SELECT mode, COUNT(*) FROM people GROUP BY mode",
    **options: str,
) -> Bad:
    given = {"data": "people.csv", "schema": "schema.toml", "epsilon": "1", "delta": "1e-4"}
    pairs = [(f"--{name.replace('_', '-')}", x) for name, x in (given | options).items() if x]
    return Bad(("query", sql, *(word for pair in pairs for word in pair)), kind, said)


def command(words: str, kind: type[errors.IncrowdError] | int, *said: str, **files: str) -> Bad:
    named = {f"{name}.csv": content for name, content in files.items()}
    return Bad(tuple(words.split()), kind, said, named)


INVALID, PARAMETER = errors.InvalidConfig, errors.InvalidParameter
LATER = "which is not supported yet; leave it out"

SURVEYS = {
    "version_missing": run(survey(top=""), INVALID, "version: missing; begin with version = 2"),
    "version_unknown": run(survey(top="version = 3"), INVALID, "version: expected 2, got 3"),
    "version_1": run(survey(more='[task]\nkind = "mean"'), INVALID, "incrowd check --upgrade"),
    "title_misspelt": run(
        survey(top='version = 2\ntitel = "x"'), INVALID, "titel: unknown key; did you mean title?"
    ),
    "title_number": run(
        survey(top="version = 2\ntitle = 3"), INVALID, " title: expected text, got whole number"
    ),
    "data_key": run(
        survey(data=f'{DATA}\nfil = "x"'), INVALID, "data.fil: unknown key; did you mean file?"
    ),
    "data_missing": run(survey(data=""), INVALID, "data.file: missing; add this key"),
    "data_no_table": run(
        survey(data='data = "people.csv"'), INVALID, "data: expected a table, written as [data]"
    ),
    "question_key": run(
        survey(f"{MODE}\ncategoris = []"),
        INVALID,
        "question.mode.categoris: unknown key; did you mean categories?",
    ),
    "question_single_table": run(
        survey("[question]\nkind = 1"), INVALID, "question: expected a table, written as [[quest"
    ),
    "question_without_kind": run(
        survey('[[question]]\nid = "mode"'), INVALID, "question.mode.kind: missing; add this key"
    ),
    "randomizer_key": run(
        survey(f'{MODE}\n[question.randomizer]\nkind = "krr"\nepsilo = 1'),
        INVALID,
        "question.mode.randomizer.epsilo: unknown key; did you mean epsilon?",
    ),
    "randomizer_kind": run(
        survey(f'{MODE}\n[question.randomizer]\nkind = "kr"'),
        INVALID,
        "question.mode.randomizer.kind: unknown kind 'kr'; did you mean krr?",
    ),
    "budget_key": run(
        survey(budget=f"{BUDGET}\nepsilom = 1"),
        INVALID,
        "budget.epsilom: unknown key; did you mean epsilon?",
    ),
    "budget_missing": run(survey(budget=""), INVALID, "budget: missing; add a table [budget]"),
    "budget_view": run(
        survey(budget=f'{BUDGET}\nview = "neighbour"'),
        PARAMETER,
        "budget.view: unknown view 'neighbour': join some of",
    ),
    "protocol_key": run(
        survey(protocol=f"{LOCAL}\nround = 1"),
        INVALID,
        "protocol.round: unknown key; did you mean rounds?",
    ),
    "protocol_people": run(
        survey(protocol=f"{LOCAL}\nn = 3"),
        INVALID,
        "protocol.n: the people are counted from the data; remove this key",
    ),
    "limits_without_choice": run(
        survey(more="[limits]\nmax_messages = 3"), INVALID, "limits: local", "remove this table"
    ),
    "same_id": run(
        survey(MODE, TIME.replace('"time"', '"mode"')),
        INVALID,
        "question[2].id: two questions are called 'mode': give each its own id",
    ),
    "later_auto": run(
        survey(protocol='[protocol]\nkind = "auto"'), INVALID, "protocol.kind: auto asks", LATER
    ),
    "later_trust": run(
        survey(protocol=f'{LOCAL}\ntrust = "none"'), INVALID, "protocol.trust: asks for", LATER
    ),
    "later_heavy_hitters": run(
        survey(MODE.replace("histogram", "heavy_hitters")),
        INVALID,
        "question[1].kind: heavy_hitters asks for",
        LATER,
    ),
    "later_repeat": run(
        survey(more="[repeat]\nwaves = 3"), INVALID, "repeat: asks for waves", LATER
    ),
    "ask_unknown": run(
        survey(MODE, TIME, budget=f'{BUDGET}\nask = "some"'),
        INVALID,
        "budget.ask: expected all or one, got 'some'",
    ),
    "ask_one_by_token": run(
        survey(MODE, TIME, budget=ONE, protocol='[protocol]\nkind = "token-walk"\nsteps = 9'),
        INVALID,
        "budget.ask: token-walk cannot tell answers to different questions apart; leave it out",
    ),
    "ask_one_by_order": run(
        survey(MODE, TIME, budget=ONE, protocol='[protocol]\nkind = "order-shuffle"\nalpha = 1.0'),
        INVALID,
        "protocol.kind: order-shuffle answers release, and mode asks for a histogram",
    ),
    "budget_epsilon_zero": run(
        survey(budget="[budget]\nepsilon = 0\ndelta = 1e-6"),
        errors.InvalidEpsilon,
        "budget: epsilon must be a positive finite number, got 0.0",
    ),
    "budget_delta_zero": run(
        survey(budget="[budget]\nepsilon = 1\ndelta = 0"),
        errors.InvalidDelta,
        "budget: delta must lie strictly between 0 and 1, got 0.0",
    ),
    "budget_delta_too_small": run(
        survey(budget="[budget]\nepsilon = 1\ndelta = 1e-300", protocol=SHUFFLE),
        errors.NumericalFloor,
        "budget: delta = 1e-300 is below 1e-280, the least that can be certified",
    ),
    "weight_negative": run(
        survey(f"{MODE}\nweight = -1"), INVALID, "question.mode.weight: must be above 0, got -1"
    ),
    "weight_infinite": run(
        survey(f"{MODE}\nweight = inf"),
        PARAMETER,
        "question.mode: weight must be a finite number, got inf",
    ),
    "weight_beyond_doubles": run(
        survey(f"{MODE}\nweight = 1e308", TIME),
        errors.InvalidEpsilon,
        "question.time.randomizer: epsilon",
        "is too small",
    ),
    "bins_too_many": run(
        survey(QUANTILES.format("bins = 5000")), PARAMETER, "question.time: bins must be at most"
    ),
    "probabilities_in_per_cent": run(
        survey(QUANTILES.format("probabilities = [25, 50]")),
        PARAMETER,
        "question.time: probabilities must rise and lie strictly between 0 and 1",
    ),
    "quantiles_by_hashing": run(
        survey(QUANTILES.format('[question.randomizer]\nkind = "olh"')),
        INVALID,
        "question.time.randomizer.kind: quantiles need errors of sums",
        "use krr, oue, sue",
    ),
    "mean_of_categories": run(
        survey(f'{TIME}\n[question.randomizer]\nkind = "krr"'),
        INVALID,
        "question.time.randomizer.kind: a mean needs a randomizer of the domain 'interval'",
    ),
    "category_empty": run(
        survey(MODE.replace('"bus"', '""')),
        PARAMETER,
        "question.mode: categories must have a name each: an empty field is a missing answer",
    ),
    "category_number": run(
        survey(MODE.replace('"bus"', "1")),
        INVALID,
        "question.mode.categories[0]: expected text, got whole number",
    ),
    "category_reserved": run(
        survey(MODE.replace('"bus"', '"no answer"')),
        PARAMETER,
        "the category 'no answer' is added for people without an answer: leave it out",
    ),
    "matrix_not_stochastic": run(
        survey(CHANNEL),
        PARAMETER,
        "channel.csv: matrix must have rows that sum to 1: row 1 sums to 1.25",
        channel="0.5,0.75\n0.5,0.5\n",
    ),
    "matrix_negative": run(
        survey(CHANNEL),
        PARAMETER,
        "channel.csv: matrix must hold probabilities: row 1, column 1 is -0.5",
        channel="-0.5,1.5\n0.5,0.5\n",
    ),
    "matrix_empty": run(
        survey(CHANNEL),
        errors.EmptyData,
        "channel.csv: the file is empty; write one row of probabilities per line",
        channel="",
    ),
    "data_empty": run(
        survey(), errors.EmptyData, "people.csv: the file is empty; it needs a header", people=""
    ),
    "data_header_alone": run(
        survey(), errors.EmptyData, "people.csv: no rows after the header", people="mode\n"
    ),
    "data_json": run(
        survey(),
        errors.FileUnreadable,
        "people.csv: JSON, not a table: save it as CSV",
        people='[{"mode": "bus"}]',
    ),
    "data_quote_open": run(
        survey(),
        errors.FileUnreadable,
        "people.csv: line 3: not valid CSV",
        "close every quote",
        people='mode\n"bus\ncar\n',
    ),
    "data_other_separator": run(
        survey(data=f'{DATA}\nseparator = ";"'),
        errors.MissingColumn,
        "people.csv: no column 'mode': the file has name,mode,minutes",
    ),
    "data_folder": run(
        survey(data='[data]\nfile = "."'), errors.FileUnreadable, ".: cannot read the data: Is a"
    ),
    "data_no_parquet": run(
        survey(),
        errors.FileUnreadable,
        "people.csv: Parquet that cannot be read",
        "save it again, or as CSV",
        people="PAR1 and no more",
    ),
    "graph_one_column": run(
        survey(protocol=WALK),
        errors.GraphMalformed,
        "friends.csv: 2 problems: line 1: expected two vertices, found 1 fields: ann",
        "write two vertices in each line",
        friends="ann\nben\n",
    ),
    "graph_header_alone": run(
        survey(data=f'{DATA}\nperson = "name"', protocol=WALK),
        errors.UnmatchedPeople,
        "friends.csv: 3 people of the data not in the graph",
        friends="source,target\n",
    ),
    "graph_negative": run(
        survey(protocol=WALK),
        errors.GraphMalformed,
        "friends.csv: line 2: vertex -1 is out of range",
        friends="0,1\n-1,2\n",
    ),
    "graph_empty": run(
        survey(protocol=WALK), errors.EmptyData, "friends.csv: the file is empty", friends=""
    ),
    "graph_family": run(
        survey(protocol=WALK.replace("friends.csv", "regularr:2")),
        PARAMETER,
        "graph 'regularr:2' is neither a file",
        "did you mean regular?",
    ),
    "check_in_without_rate": run(
        survey(protocol='[protocol]\nkind = "check-in"'),
        PARAMETER,
        "protocol: rate must be given: the chance that a person takes part in a round",
    ),
    "release_without_places": run(
        survey(
            PLACE.replace('["bus"]', '["bus", "bike", "car"]'),
            protocol='[protocol]\nkind = "order-shuffle"\nalpha = 1.0',
        ),
        PARAMETER,
        "coordinates are missing: let the question name the columns",
    ),
    "randomizer_above_budget": run(
        survey(f'{MODE}\n[question.randomizer]\nkind = "krr"\nepsilon = 5'),
        errors.BudgetInfeasible,
        "question.mode.randomizer.epsilon: 5 gives epsilon 5",
        "lower it, or leave it out to have it solved",
    ),
    "question_too_long_for_devices": run(
        survey(f'{MODE}\ntext = "{"x" * 3000}"'),
        PARAMETER,
        "a question of 3000 characters begins 'xxx",
        "at most 2000",
        words=("--no-report", "--engine", "live", "--min-crowd", "1"),
    ),
    "seed_negative": run(
        survey(), PARAMETER, "--seed must be a whole number ≥ 0, got -1", words=("--seed", "-1")
    ),
    "fault_without_actors": run(
        survey(), 2, "'--dropout': needs --engine actors", words=("--dropout", "0.5")
    ),
    "weight_zero": run(
        survey(f"{MODE}\nweight = 0"), INVALID, "question.mode.weight: must be above 0, got 0"
    ),
    "weight_text": run(
        survey(f'{MODE}\nweight = "two"'),
        PARAMETER,
        "question.mode: weight must be a finite number, got 'two'",
    ),
    "missing_rule": run(
        survey(f'{MODE}\nmissing = "skip"'),
        INVALID,
        "question.mode.missing: expected one of answer, refuse, drop",
    ),
    "missing_dropped_live": run(
        survey(f'{MODE}\nmissing = "drop"'),
        PARAMETER,
        'question mode: missing = "drop" is for simulations',
        "leave it out",
        words=("--no-report", "--engine", "live"),
    ),
    "missing_refused": run(
        survey(f'{MODE}\nmissing = "refuse"'),
        PARAMETER,
        "people.csv: mode: no answer in row 2: fill them in",
        people="mode\nbus\n\ncar\n",
    ),
    "missing_everywhere": run(
        survey(f'{MODE}\nmissing = "drop"'),
        errors.EmptyData,
        "people.csv: every row has a missing answer",
        people='mode\n""\n""\n',
    ),
    "two_domains": run(
        survey(
            MODE,
            '[[question]]\nid = "b"\ncolumn = "mode"\nkind = "histogram"\n'
            'categories = ["bus", "car"]',
        ),
        PARAMETER,
        "question: column 'mode' has other categories or bounds in two questions: give both",
    ),
    "release_beside": run(
        survey(MODE, PLACE), INVALID, "question.place.kind: a release stands alone: ask the other"
    ),
    "one_epsilon": run(
        survey(MODE, f"{TIME}\n[question.randomizer]\nepsilon = 1"),
        INVALID,
        "question.mode.randomizer.epsilon: missing; other questions have one: state all, or none",
    ),
    "bounds_reversed": run(
        survey(TIME.replace("[0, 60]", "[60, 0]")), PARAMETER, "question.time: bounds must be two"
    ),
    "bounds_text": run(
        survey(TIME.replace("[0, 60]", '[0, "x"]')),
        INVALID,
        "question.time.bounds[1]: expected number, got text",
    ),
    "categories_doubled": run(
        survey(MODE.replace('"bike", "car"', '"bus"')),
        PARAMETER,
        "question.mode: categories must be at least two different names",
    ),
    "matrix_zero": run(
        survey(CHANNEL),
        PARAMETER,
        "question.mode.randomizer: matrix must have no zero",
        "row 1, column 3",
        channel="0.5,0.5,0,0\n0.2,0.2,0.3,0.3\n",
    ),
    "matrix_ragged": run(
        survey(CHANNEL),
        PARAMETER,
        "channel.csv: matrix must have rows of one length: row 1 has 2, row 2 1",
        channel="0.5,0.5\n0.2\n",
    ),
    "person_doubled": run(
        survey(data=f'{DATA}\nperson = "name"'),
        errors.UnmatchedPeople,
        "people.csv: column 'name': 'ann' stands in rows 1, 2: give every person",
        people="name,mode\nann,bus\nann,car\n",
    ),
    "person_empty": run(
        survey(data=f'{DATA}\nperson = "name"'),
        errors.UnmatchedPeople,
        "people.csv: column 'name': row 2 has no name: give every person a name",
        people="name,mode\nann,bus\n,car\n",
    ),
    "person_unknown": run(
        survey(data=f'{DATA}\nperson = "nam"'),
        errors.MissingColumn,
        "people.csv: no column 'nam': did you mean 'name'?",
    ),
    "graph_unmatched": run(
        survey(data=f'{DATA}\nperson = "name"', protocol=WALK),
        errors.UnmatchedPeople,
        "friends.csv: 1 person of the data not in the graph ('cid')",
        "correct the names",
        friends=FRIENDS.replace("cid", "dan"),
    ),
    "graph_named_alone": run(
        survey(protocol=WALK),
        errors.InvalidCrowd,
        "friends.csv names people, and the data do not: set data.person",
        friends=FRIENDS,
    ),
    "separator": run(
        survey(data=f'{DATA}\nseparator = ";;"'), PARAMETER, "data: separator ';;' is not one char"
    ),
    "decimal": run(
        survey(data=f'{DATA}\ndecimal = "x"'), PARAMETER, "data: decimal 'x' is not '.' or ','"
    ),
    "encoding": run(
        survey(data=f'{DATA}\nencoding = "klingon"'),
        PARAMETER,
        "data: encoding 'klingon' is unknown: use utf-8",
    ),
    "row_too_long": run(
        survey(),
        errors.MissingColumn,
        "people.csv: row 1 (line 2) has 3 fields where the header has 2: complete the row",
        people="name,mode\nann,bus,3\n",
    ),
    "column_doubled": run(
        survey(),
        errors.MissingColumn,
        "people.csv: more than one column 'mode': rename all of them but one",
        people="mode,mode\nann,bus\n",
    ),
    "too_few_people": run(
        survey(),
        errors.InvalidCrowd,
        "there are no 7 people: the data have 3 rows; take fewer",
        words=("--no-report", "--n", "7"),
    ),
    "table_of_histogram": run(
        survey(), 2, "'--table': a histogram releases no table", words=("--table", "t.csv")
    ),
    "report_over_survey": run(
        survey(), 2, "would overwrite survey.toml: name another", words=("--report", "survey.toml")
    ),
    "report_over_data": run(
        survey(), 2, "would overwrite people.csv: name another", words=("--report", "people.csv")
    ),
    "report_in_no_folder": run(
        survey(), errors.FileNotWritable, "create it first", words=("--report", "no/r.html")
    ),
    "table_in_no_folder": run(
        survey(
            f'{PLACE}\ngroups = "minutes"'.replace('["bus"]', '["bus", "bike", "car"]'),
            protocol='[protocol]\nkind = "order-shuffle"\nalpha = 1.0',
        ),
        errors.FileNotWritable,
        "no/t.csv: cannot write the release: there is no folder",
        words=("--no-report", "--table", "no/t.csv"),
    ),
    "format": run(survey(), 2, "'yaml' is not one of 'table', 'json'", words=("--format", "yaml")),
}
OTHERS = {
    "check_output_alone": command(
        "check survey.toml --output new.toml", 2, "'--output': needs --upgrade"
    ),
    "check_upgrade_twice": command(
        "check survey.toml --upgrade", INVALID, "survey.toml: the file is of version 2 already"
    ),
    "check_no_toml": command(
        "check people.csv", errors.MalformedConfig, "people.csv: line 1, column 5: expected '='"
    ),
    "query_no_data": query(errors.FileUnreadable, "none.csv: cannot read the", data="none.csv"),
    "query_no_schema": query(errors.FileUnreadable, "none.toml: cannot", schema="none.toml"),
    "query_no_sql": query(errors.InvalidQuery, "line 1, column 1: SELEKT: expected", sql="SELEKT"),
    "query_column": query(
        errors.InvalidQuery,
        "tram: unknown column; known: hours, mode",
        sql="SELECT tram, COUNT(*) FROM people GROUP BY tram",
    ),
    "query_column_not_in_data": query(
        errors.MissingColumn, "people.csv: no column 'hours'", sql="SELECT AVG(hours) FROM people"
    ),
    "query_table": query(
        errors.InvalidQuery,
        "crowd: unknown table; did you mean people?",
        sql="SELECT COUNT(*) FROM crowd",
    ),
    "query_no_budget": query(2, "missing option --epsilon: a query needs a budget", epsilon=""),
    "query_epsilon": query(errors.InvalidEpsilon, "--epsilon must be a positive", epsilon="-1"),
    "query_view": query(PARAMETER, "--view: unknown view 'neighbour'", view="neighbour"),
    "query_setting": query(
        PARAMETER, "--redirect-probability must be between 0 and 1", redirect_probability="2"
    ),
    "query_limit": query(PARAMETER, "--max-connections must be a whole", max_connections="0"),
    "query_drawing": query(
        errors.FileNotWritable, "no/plan.svg: cannot write the drawing", draw="no/plan.svg"
    ),
    "init_over_survey": command(
        "init people.csv", errors.FileNotWritable, "survey.toml exists already", "--force"
    ),
    "init_over_data": command(
        "init people.csv --force --output people.csv", 2, "would overwrite people.csv"
    ),
    "init_column": command(
        "init people.csv --output new.toml --columns tram",
        errors.MissingColumn,
        "people.csv: no column 'tram': the file has name, mode, minutes",
    ),
    "init_person": command(
        "init people.csv --output new.toml --person mode",
        errors.UnmatchedPeople,
        "column 'mode': 'bus' stands in rows 1, 2",
        people="mode,minutes\nbus,1\nbus,2\n",
    ),
    "init_separator": command(
        "init people.csv --output new.toml --separator ;;", PARAMETER, "--separator ';;' is not"
    ),
    "graph_missing": command("graph stats none.txt", errors.FileUnreadable, "none.txt: cannot"),
    "graph_kind": command(
        "graph stats people.xls", errors.GraphMalformed, "unknown kind of graph file '.xls'; use"
    ),
    "account_no_matrix": command(
        "account trusted-shuffle --n 9 --delta 1e-6 --matrix none.csv",
        errors.FileUnreadable,
        "none.csv: cannot read the matrix",
    ),
    "account_matrix_of_words": command(
        "account trusted-shuffle --n 9 --delta 1e-6 --matrix people.csv",
        PARAMETER,
        "people.csv: line 1: 'name' is not a number: write one row of probabilities per line",
    ),
    "account_colluders": command(
        "account trusted-shuffle --n 9 --delta 1e-6 --local-epsilon 1 --colluders people.csv",
        PARAMETER,
        "people.csv: not valid JSON",
    ),
    "calibrate_unknown": command(
        "calibrate trusted-shuffle --n 9 --delta 1e-6 --epsilon 1 --solve wings",
        2,
        "'--solve': 'wings' cannot be solved for: name one of delta, local-epsilon, n, rounds",
    ),
    "calibrate_given": command(
        "calibrate trusted-shuffle --n 9 --delta 1e-6 --epsilon 1 --local-epsilon 1 --solve n",
        2,
        "'--n': is to be solved for",
    ),
    "release_no_place": command("release people.csv", 2, "say where people are in one way: --lat"),
    "release_no_data": command("release none.csv", errors.FileUnreadable, "none.csv: cannot read"),
    "account_view": command(
        "account trusted-shuffle --n 9 --delta 1e-6 --local-epsilon 1 --view pope",
        PARAMETER,
        "--view: unknown view 'pope': join some of",
    ),
    "account_delta_zero": command(
        "account trusted-shuffle --n 9 --delta 0 --local-epsilon 1",
        errors.InvalidDelta,
        "--delta must lie strictly between 0 and 1, got 0.0",
    ),
    "account_epsilon_huge": command(
        "account trusted-shuffle --n 9 --delta 1e-6 --local-epsilon 1e6",
        errors.InvalidEpsilon,
        "--local-epsilon must be at most 300",
    ),
    "command_misspelt": command(
        "runn survey.toml", 2, "No such command 'runn'. Did you mean 'run'"
    ),
    "option_misspelt": command("run survey.toml --sed 1", 2, "No such option: --sed", "--seed"),
    "survey_misspelt": command(
        "run surve.toml", errors.FileUnreadable, "surve.toml: cannot read the survey: No such file"
    ),
    "init_no_folder": command(
        "init people.csv --output no/survey.toml",
        errors.FileNotWritable,
        "no/survey.toml: cannot write the survey: there is no folder",
        "create it first",
    ),
    "ledger_view": command(
        "ledger --state . --view pope", PARAMETER, "--view: unknown view 'pope'"
    ),
    "pause_no_state": command(
        "device pause --state none", errors.FileUnreadable, "there is no folder none: name the --st"
    ),
    "device_no_hub": command("device run", 2, "Missing option '--hub'"),
    "policy_missing": command("device policy check none.toml", errors.FileUnreadable, "none.toml"),
    "curator_no_hub": command("curator open survey.toml", 2, "missing option --hub: give it"),
    "keys_missing": command("keys show none", errors.FileUnreadable, "none/certificate.pem"),
    "ledger_no_state": command("ledger", 2, "Missing option '--state'"),
    "hub_port": command("hub --port 99999999", 2, "'--port'", "65535"),
}
BAD = SURVEYS | OTHERS


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_line_and_changes_no_file(incrowd: Call, name: str) -> None:
    bad = BAD[name]
    files = {"people.csv": PEOPLE, "schema.toml": SCHEMA, "survey.toml": survey()} | bad.files
    for file, content in files.items():
        Path(file).write_text(content)
    ended = incrowd(*bad.words)
    assert_fails(ended, bad.kind, *bad.said)
    assert ended.code == 2 or ended.code >= 10
    assert {each.name: each.read_text() for each in Path.cwd().iterdir()} == files
