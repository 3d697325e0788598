"""The generated pieces of the README and of the documentation: one function for each.

Everything is read off the real software: commands are run, and tables are made from the registries
and structs that the software itself uses. What cannot be read off stands in ``words``.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import itertools
import math
import os
import re
import shlex
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_origin

# Read when typer is imported: help looks the same on a terminal, in a pipe and in CI.
os.environ |= {
    "_TYPER_FORCE_DISABLE_TERMINAL": "1",
    "TERMINAL_WIDTH": "90",
    "COLUMNS": "90",
    "NO_COLOR": "1",
}

import numpy as np
from words import KEYS, REASONS

import incrowd as ic
from incrowd.cli import main
from incrowd.cli.app import build
from incrowd.extras import EXTRAS
from incrowd.live.options import LiveOptions
from incrowd.protocols.capabilities import Tunable
from incrowd.protocols.registry import PROTOCOLS
from incrowd.protocols.registry import load as load_protocol
from incrowd.protocols.settings import Field, fields_of, settings_type
from incrowd.randomizers._lattice import keep_probability, truth_probability
from incrowd.randomizers.registry import RANDOMIZERS, answer_plugins
from incrowd.report.format import count, guesses, plain, up
from incrowd.survey.people import DataFile
from incrowd.tasks.registry import TASKS, column_tasks

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SOURCE = Path(ic.__file__).parent
DELTA = 1e-6

PATIENTS = (
    "SELECT age_range, bmi, AVG(insulin) FROM patients GROUP BY GROUPING SETS ((age_range),(bmi))"
)

COMMANDS = {
    "policy-show": "device policy show examples/policy.toml",
    "account-shuffle": "account trusted-shuffle --local-epsilon 1 --n 1e6 --delta 1e-6",
    "account-everyone": "account trusted-shuffle --local-epsilon 1 --n 1e6 --delta 1e-6"
    " --view curator+shuffler",
    "account-colluders": "account trusted-shuffle --local-epsilon 1 --n 1e6 --delta 1e-6"
    " --colluders 900000",
    "account-rounds": "account trusted-shuffle --local-epsilon 1 --n 1e6 --delta 1e-6 --rounds 100",
    "account-network-few": "account network-shuffle --graph examples/friends.npz --rounds 14"
    " --local-epsilon 1 --delta 1e-6",
    "account-network-colluders": "account network-shuffle --graph examples/friends.npz --rounds 20"
    " --local-epsilon 1 --delta 1e-6 --colluders 0.01",
    "account-network-stationary": "account network-shuffle --stationary --n 1e6 --local-epsilon 1"
    " --delta 1e-6",
    "account-check-in": "account check-in --n 1e6 --rate 0.01 --rounds 1000 --local-epsilon 2"
    " --delta 1e-6",
    "calibrate-check-in": "calibrate check-in --n 1e6 --rate 0.01 --local-epsilon 2 --delta 1e-6"
    " --epsilon 0.1",
    "run-check-in": "run examples/check_in.toml --seed 7 --no-report",
    "account-token": "account token-walk --contribution sum --n 1000 --steps 1e5 --sigma 4.2247"
    " --sensitivity 1 --path hidden --delta 1e-6",
    "account-token-public": "account token-walk --contribution sum --n 1000 --steps 1e5"
    " --sigma 4.2247 --sensitivity 1 --path public --delta 1e-6",
    "calibrate-token": "calibrate token-walk --contribution sgd --n 2000 --steps 20000 --clip 1"
    " --path hidden --delta 1e-6 --epsilon 1",
    "run-token": "run examples/token.toml --seed 7 --no-report",
    "account-scrambler": "account scrambled-query --targets 20 --redirect-probability 0.1"
    " --sources 600 --dummies 300 --delta 1e-4",
    "query-patients": f"query '{PATIENTS}' --data examples/patients.csv"
    " --schema examples/patients.toml --epsilon 1 --delta 1e-4 --seed 7",
    "query-limited": f"query '{PATIENTS}' --data examples/patients.csv"
    " --schema examples/patients.toml --epsilon 1 --delta 1e-4 --seed 7 --max-messages 4500",
    "account-order": "account order-shuffle --groups examples/neighbours.json --alpha 1",
    "shuffle-town": "release examples/town.csv --lat lat --lon lon --radius 0.2"
    " --shape square --alpha 2 --column illness --seed 7",
    "run-town": "run examples/town.toml --seed 7 --no-report",
    "run-work": "run examples/work.toml --seed 7 --no-report",
    "run-commute": "run examples/commute.toml --seed 7 --no-report",
    "run-friends": "run examples/friends.toml --seed 7 --no-report",
    "run-faults": "run examples/commute.toml --seed 7 --no-report --engine actors"
    " --loss 0.05 --dropout 0.1 --crash 0.01",
    "refused-adaptive": "account trusted-shuffle --local-epsilon 1 --n 1e4 --delta 1e-6"
    " --randomizer gaussian --local-delta 1e-8 --adaptive",
    "refused-floor": "account trusted-shuffle --local-epsilon 1 --n 1e4 --delta 1e-300",
    "refused-budget": "calibrate trusted-shuffle --local-epsilon 4 --n 1000 --delta 1e-6"
    " --epsilon 0.01",
}
"""Commands whose output a page shows, run beside the examples."""

TYPES = {
    float: "number",
    int: "whole number",
    str: "text",
    bool: "true or false",
    tuple: "file, or list of numbers",
}

Piece = Callable[[], str]
PIECES: dict[str, Piece] = {}


def piece(function: Piece) -> Piece:
    """Register a function under its name, with dashes."""
    PIECES[function.__name__.replace("_", "-")] = function
    return function


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fenced(text: str) -> str:
    """Text as it was printed, without trailing spaces and repeated empty lines."""
    lines = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
    return "```text\n" + re.sub(r"\n{3,}", "\n\n", lines) + "\n```"


def call(*words: str) -> tuple[str, int]:
    """What a command prints, results and complaints together, and its exit code.

    It runs where nothing is but the examples, so that what it says does not depend on files that an
    earlier one has left.
    """
    printed = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        Path("examples").symlink_to(ROOT / "examples")
        code = main(words)
    return printed.getvalue(), code


def shown(command: str) -> str:
    """A command and its output."""
    printed, code = call(*shlex.split(command))
    # Stages that take long name themselves: which ones do depends on the machine.
    told = [line for line in printed.splitlines() if not line.endswith(" …")]
    lines = [line for line in told if line.strip() or not code]
    ending = [f"(exit code {code})"] if code else []
    return fenced("\n".join([f"$ incrowd {command}", *lines, *ending]))


def first_line(thing: Any) -> str:
    """The first sentence of a docstring, as Markdown."""
    line = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")
    return re.sub(r":\w+:`~?\.?([^`]+)`", r"`\1`", line).replace("``", "`").replace("|", "\\|")


# The protocols.


@piece
def protocols() -> str:
    """Those that are here, from their declarations."""
    rows = [
        (f"`{kind}`", plugin.summary, "here", plugin.paper or "–")
        for kind, plugin in PROTOCOLS.plugins().items()
    ]
    return table(("protocol", "how reports travel", "state", "paper"), rows)


@piece
def protocol_parameters() -> str:
    """The parameters of each protocol, from its struct."""
    rows = [
        (f"`{kind}`", f"`{field.name}`", _type(field), _default(field), field.description)
        for kind in PROTOCOLS
        for field in fields_of(settings_type(load_protocol(kind))).values()
    ]
    return table(("protocol", "parameter", "type", "default", "meaning"), rows)


@piece
def amplification() -> str:
    """One example of what a crowd adds, as a sentence."""
    epsilon = {
        n: up(ic.TrustedShuffle(ic.Generic(epsilon=1.0), n=n).guarantee().epsilon(DELTA))
        for n in (1_000, 1_000_000)
    }
    found = " and ".join(f"ε = {value} among {count(n)} people" for n, value in epsilon.items())
    return f"> If each report alone has ε0 = 1, shuffling gives {found} (at δ = 1e-6)."


@piece
def guarantee_example() -> str:
    """The views of one example, with colluders."""
    protocol = ic.TrustedShuffle(ic.Generic(epsilon=1.0), n=1_000_000)
    views = [("curator", 0), ("curator", 900_000), ("curator+shuffler", 0), ("everyone", 0)]
    rows = []
    for view, colluders in views:
        guarantee = protocol.guarantee(view, colluders)
        who = f"`{view}`" + (f" and {count(colluders)} colluders" if colluders else "")
        epsilon = guarantee.epsilon(DELTA)
        rows.append((who, up(epsilon), guesses(epsilon, DELTA)))
    return table(("against", "ε", "a guess is right, at most"), rows)


@piece
def survey_commute() -> str:
    """The first example."""
    return _survey("commute")


@piece
def survey_work() -> str:
    """Several questions."""
    return _survey("work")


@piece
def survey_live() -> str:
    """The survey for live runs."""
    return _survey("live")


@piece
def survey_insulin() -> str:
    """The survey that asks a query."""
    return _survey("insulin")


@piece
def policy_example() -> str:
    """The policy that is explained key by key."""
    return _survey("policy")


@piece
def survey_town() -> str:
    """The survey that releases a table."""
    return _survey("town")


def _survey(name: str) -> str:
    text = (ROOT / "examples" / f"{name}.toml").read_text(encoding="utf-8")
    return f"```toml\n{text.strip()}\n```"


# Randomizers.


@piece
def randomizers() -> str:
    """Every randomizer, from the registry."""
    takes = {
        "category": "categories",
        "interval": "a number in [0, 1]",
        "vector": "a unit vector",
    }
    rows = []
    for kind in answer_plugins():
        each = RANDOMIZERS.load(kind)
        more = [f"`{name}`" for name in fields_of(each) if name != "epsilon"]
        accepts = "anything" if kind == "generic" else takes[each.domain]
        name = f"`ic.{each.__name__}`"
        rows.append((f"`{kind}`", name, accepts, ", ".join(more) or "–", first_line(each)))
    return table(("kind", "class", "takes", "beside `epsilon`", "what it is"), rows)


@piece
def randomizer_errors() -> str:
    """The expected error of a frequency and the amplified ε, for a few numbers of categories."""
    n, sizes = 10_000, (4, 64, 1024)
    rows = []
    for kind in ("krr", "oue", "sue", "hadamard", "olh"):
        errors, epsilons, size = [], [], ""
        for k in sizes:
            randomizer = RANDOMIZERS.load(kind)(epsilon=1.0, categories=k)
            protocol = ic.TrustedShuffle(randomizer, n=n)
            errors.append(up(protocol.cost().expected_error, 2))
            epsilons.append(up(protocol.guarantee().epsilon(DELTA), 2))
            size = count(randomizer.report_bytes)
        rows.append((f"`{kind}`", *errors, *epsilons, size))
    head = [f"error, k = {k}" for k in sizes] + [f"ε, k = {k}" for k in sizes]
    return table(("kind", *head, f"bytes, k = {sizes[-1]}"), rows)


# Graphs.


@piece
def missing_price() -> str:
    """The growth of standard errors by a reserved outcome, from the probabilities drawn with."""

    def krr(categories: int, share: float) -> float:
        keep = keep_probability(1.0, categories)
        other = (1 - keep) / categories
        own = keep + other
        return math.sqrt(share * own * (1 - own) + (1 - share) * other * (1 - other)) / keep

    places = ((0.0, "a share near 0"), (1 / 3, "a share of a third"), (0.7, "a share of 0.7"))
    rows = [
        ["`krr` with 4 categories against 3", told, plain(krr(4, share) / krr(3, share), 3)]
        for share, told in places
    ]
    keep, truth = keep_probability(1.0, 3), truth_probability(1.0)
    other = (1 - keep) / 3
    # Half of the people at either bound: high counts ½, low −½, none 0.
    ternary = math.sqrt((keep + 2 * other) / 4 - keep**2 / 4) / keep
    onebit = math.sqrt(truth * (1 - truth)) / (2 * truth - 1)
    rows.append(["`ternary` against `onebit`", "numbers at the bounds", plain(ternary / onebit, 3)])
    return table(["randomizer", "at", "standard error times"], rows)


@piece
def graph_families() -> str:
    """Every family, with how a walk on an example of it mixes."""
    rng = np.random.default_rng
    examples: dict[str, tuple[Any, ...]] = {
        "complete": (400,),
        "ring": (401,),
        "line": (400,),
        "star": (400,),
        "grid": (20, 20),
        "random_regular": (400, 8, rng(7)),
        "erdos_renyi": (400, 0.03, rng(7)),
        "barabasi_albert": (400, 4, rng(7)),
        "geometric": (400, 0.12, rng(7)),
    }
    rows = []
    for name, family in ic.graphs.FAMILIES.items():
        made = ic.graphs.stats(family(*examples[name]).largest_component())
        rows.append(
            (
                f"`{name}({', '.join(inspect.signature(family).parameters)})`",
                count(made.vertices),
                count(made.edges),
                plain(made.gamma, 3),
                _short(made.spectral_gap),
                "never" if made.mixing_rounds is None else count(made.mixing_rounds),
                _short(made.lazy_spectral_gap),
                count(made.lazy_mixing_rounds or 0),
            )
        )
    return table(
        ("family", "people", "edges", "Γ", "gap", "rounds", "gap, lazy", "rounds, lazy"), rows
    )


def _short(value: float) -> str:
    return plain(value, 2).replace("e-0", "e-")


# Surveys and simulation.


def _type(field: Field) -> str:
    if get_origin(field.type):
        return " or ".join(f"`{word}`" for word in field.type.__args__)
    name = "file" if field.path else TYPES[field.type]
    return " or ".join((name, *(f"`{word}`" for word in field.words)))


def _default(field: Field) -> str:
    if field.required:
        return "required"
    if field.default_text is not None:
        return field.default_text or "where needed"
    if isinstance(field.default, bool):
        return str(field.default).lower()
    return f"`{field.shown_default}`" if field.shown_default else "none"


@piece
def survey_keys() -> str:
    """Every key of a survey file, from the structs that read it."""
    rows: list[tuple[str, ...]] = []

    def say(section: str, names: Iterable[str], fields: dict[str, Field]) -> None:
        for name in names:
            kind, default, meaning = KEYS[section, name]
            default = default or _default(fields[name])
            shown = "[[question]]" if section == "question" else f"[{section}]"
            rows.append((f"`{shown}`", f"`{name}`", kind, default, meaning))

    tasks = {name: field for kind in column_tasks() for name, field in _fields(TASKS.load(kind))}
    data = fields_of(DataFile)
    say("data", data, data)
    own = ("id", "kind", "text", "column", "weight", "missing", "outside")
    say("question", dict.fromkeys([*own, *tasks, "sql"]), tasks)
    budget = fields_of(ic.survey.Budget)
    say("budget", budget, budget)
    names = " or ".join(f"`{kind}`" for kind in PROTOCOLS)
    rows.append(("`[protocol]`", "`kind`", "text", "required", names))
    # Two protocols may have a key of one name, with one meaning or with two.
    told: dict[tuple[str, ...], list[str]] = {}
    for kind in PROTOCOLS:
        for name, field in _fields(settings_type(load_protocol(kind))):
            if name != "n":
                said = (f"`{name}`", _type(field), _default(field), field.description)
                told.setdefault(said, []).append(f"`{kind}`")
    for (name, type_, default, meaning), kinds in told.items():
        rows.append(("`[protocol]`", name, type_, default, f"{', '.join(kinds)}: {meaning}"))
    chosen = "[the one of least error](randomizers.md#where-none-is-named)"
    rows.append(
        ("`[question.randomizer]`", "`kind`", "text", chosen, "see [randomizers](randomizers.md)")
    )
    domains = {task.domain for task in column_tasks().values()}
    fields = {
        name: field
        for kind, each in answer_plugins().items()
        if each.domain in domains
        for name, field in _fields(RANDOMIZERS.load(kind))
    }
    say("question.randomizer", ("epsilon", *sorted(fields.keys() - {"epsilon"})), fields)
    for kind in PROTOCOLS:
        protocol = load_protocol(kind)
        for name, field in _fields(protocol.limits_type) if issubclass(protocol, Tunable) else ():
            said = f"`{kind}`: {field.description}"
            rows.append(("`[limits]`", f"`{name}`", _type(field), _default(field), said))
    for name, field in _fields(LiveOptions):
        rows.append(("`[live]`", f"`{name}`", _type(field), _default(field), field.description))
    return table(("table", "key", "type", "default", "meaning"), rows)


def _fields(description: Any) -> Iterator[tuple[str, Field]]:
    yield from fields_of(description).items()


@piece
def faults() -> str:
    """Every fault, from the struct."""
    rows = [
        (f"`--{field.name}`", _type(field), _default(field), field.description)
        for field in fields_of(ic.sim.Faults).values()
    ]
    return table(("option", "type", "default", "meaning"), rows)


# Reference.


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command, the groups included, in the order of the help."""
    group = group or build()
    yield path
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


@piece
def command_line() -> str:
    """The help of every command."""
    return "\n\n".join(
        f"## {' '.join(('incrowd', *path))}\n\n{fenced(call(*path, '--help')[0])}"
        for path in commands()
    )


def attribute_docs(package: str) -> dict[str, str]:
    """What stands below the assignments of constants, in all modules of a package."""
    found: dict[str, str] = {}
    for path in sorted((SOURCE / package).rglob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for node, after in itertools.pairwise(body):
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                targets = node.targets if isinstance(node, ast.Assign) else []
                targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
                found |= {each.id: after.value.value for each in targets if hasattr(each, "id")}
    return found


_MOST_ARGUMENTS = 11


def _arguments(thing: Any) -> str:
    """How something is called; a dash for what is not called, or only by the software itself."""
    error = inspect.isclass(thing) and issubclass(thing, Exception)
    if error or inspect.isabstract(thing) or not callable(thing):
        return "–"
    told: list[str] = []
    for each in inspect.signature(thing).parameters.values():
        if each.kind is each.KEYWORD_ONLY and "*" not in told:
            told.append("*")
        told.append(each.name)
    return f"`{', '.join(told)}`" if 0 < len(told) <= _MOST_ARGUMENTS else "–"


@piece
def python_names() -> str:
    """The names of ``import incrowd as ic``."""
    things = {name: getattr(ic, name) for name in ic.__all__ if name != "__version__"}
    rows = [
        (f"`ic.{name}`", _arguments(thing), first_line(thing))
        for name, thing in things.items()
        if not inspect.ismodule(thing)
    ]
    return table(("name", "arguments", "what it is"), rows)


@piece
def python_packages() -> str:
    """The public names of each package."""
    parts = []
    for package in (name for name in ic.__all__ if inspect.ismodule(getattr(ic, name))):
        module = importlib.import_module(f"incrowd.{package}")
        constants = attribute_docs(package)
        rows = []
        for name in module.__all__:
            thing = getattr(module, name)
            plainly = inspect.isclass(thing) or inspect.isfunction(thing)
            told = first_line(thing) if plainly else constants.get(name, "")
            called = _arguments(thing) if plainly else "–"
            rows.append((f"`{name}`", called, told.replace("``", "`").replace("\n", " ")))
        link = f"[Signatures and types](api/{package}.md)."
        heading = f"## incrowd.{package}\n\n{first_line(module)} {link}"
        parts.append(f"{heading}\n\n{table(('name', 'arguments', 'what it is'), rows)}")
    return "\n\n".join(parts)


@piece
def dependencies() -> str:
    """Every dependency that users install, with why it is there."""
    project = _pyproject()["project"]
    extras = {name: project["optional-dependencies"][name] for name in EXTRAS}
    return _dependency_table({"always": project["dependencies"], **_called("extra", extras)})


@piece
def developer_dependencies() -> str:
    """Every dependency of those who change incrowd, with why it is there."""
    return _dependency_table(_called("group", _pyproject()["dependency-groups"]))


def _pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _called(kind: str, groups: dict[str, list[str]]) -> dict[str, list[str]]:
    return {f"{kind} `{name}`": needed for name, needed in groups.items()}


def _dependency_table(groups: dict[str, list[str]]) -> str:
    rows = []
    for where, needed in groups.items():
        for each in needed:
            name = re.split(r"[<>=!~\[ ]", each, maxsplit=1)[0]
            version = each.removeprefix(name) or "any"
            rows.append((f"`{name}`", where, f"`{version}`", REASONS[name]))
    return table(("package", "installed", "version", "why it is there"), rows)
