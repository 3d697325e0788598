"""``incrowd graph``: statistics of a graph before a walk on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from incrowd.cli.output import Format, FormatOption, emit, note
from incrowd.report.format import cell

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(help="Look at the graph of who can talk to whom.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Look at the graph of who can talk to whom."""


@app.command()
def stats(
    path: Annotated[
        Path, typer.Argument(help="A graph: .npz, .mtx, .csv, .tsv, .txt, .edges or .edgelist.")
    ],
    largest_component: Annotated[
        bool, typer.Option("--largest-component", help="Measure the largest component alone.")
    ] = False,
    self_loops: Annotated[
        bool, typer.Option("--self-loops", help="Keep self-loops instead of dropping them.")
    ] = False,
    format: FormatOption = Format.table,
) -> None:
    """Sizes, degrees, components, irregularity and spectral gap of a graph."""
    import msgspec

    from incrowd import graphs

    graph = graphs.load(path, allow_isolated=True, self_loops=True)
    for each in graph.notes:
        note(each)
    dropped = 0 if self_loops else graph.self_loops
    if dropped:
        graph = graphs.from_edges(*graph.edges(), graph.n)
    if largest_component:
        graph = graph.largest_component()
    else:
        graphs.require_no_isolated(graph, where=str(path))
    payload: dict[str, Any] = msgspec.to_builtins(graphs.stats(graph))
    payload["self_loops_dropped"] = dropped
    emit(payload, lambda console: _render(console, payload), format)


_LABELS = {
    "vertices": "vertices",
    "edges": "edges",
    "self_loops": "self-loops",
    "self_loops_dropped": "self-loops dropped from the file",
    "degree_min": "degree, least",
    "degree_mean": "degree, mean",
    "degree_median": "degree, median",
    "degree_max": "degree, most",
    "components": "components",
    "largest_components": "largest components",
    "connected": "connected",
    "bipartite": "bipartite",
    "gamma": "irregularity Γ = n Σ π²",
    "lambda_2": "second eigenvalue λ₂",
    "lambda_min": "smallest eigenvalue",
    "spectral_gap": "spectral gap",
    "lazy_spectral_gap": "spectral gap, lazy walk (½)",
    "eigen_residual": "residual of the eigenvalues",
    "mixing_rounds": "rounds to mix within ¼, at most",
    "lazy_mixing_rounds": "rounds to mix, lazy walk, at most",
}


def _render(console: Console, payload: dict[str, Any]) -> None:
    from incrowd.report.terminal import facts_table

    console.print(facts_table((label, _shown(payload[key])) for key, label in _LABELS.items()))


def _shown(value: Any) -> str:
    if value is None:
        return "never"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return cell(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value))
    return f"{value:,}"
