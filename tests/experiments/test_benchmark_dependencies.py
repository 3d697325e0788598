"""The table of dependencies counts what an installer brings, and times what the code imports."""

import pytest
from packaging.requirements import Requirement

from tests.experiments.benchmarks import loaded


@pytest.fixture(scope="module")
def benchmark():
    with loaded("dependencies") as module:
        yield module


def test_closure_follows_needs_and_extras_of_needs(benchmark):
    assert {"numba", "llvmlite", "numpy"} <= benchmark.closure([Requirement("numba")])
    assert benchmark.closure([Requirement("msgspec")]) == {"msgspec"}
    pytest.importorskip("psycopg")
    assert "psycopg-binary" not in benchmark.closure([Requirement("psycopg")])
    assert "psycopg-binary" in benchmark.closure([Requirement("psycopg[binary]")])


def test_sizes_add_up(benchmark):
    alone = [benchmark.megabytes([each]) for each in ("numpy", "msgspec")]
    assert min(alone) > 0
    assert benchmark.megabytes(["numpy", "msgspec"]) == pytest.approx(sum(alone))


def test_every_dependency_is_imported_somewhere(benchmark):
    used = benchmark.imported()
    assert used["dp_accounting"] == {"dp_accounting.pld"}
    for group, requirements in benchmark.declared().items():
        for each in requirements:
            if group == benchmark.CORE:
                assert benchmark._module(each.name, used) in used


def test_rows_state_packages_then_groups(benchmark):
    stated = {"core": [Requirement("msgspec")], "more": [Requirement("rich")]}
    found = list(benchmark.rows(1, stated))
    assert [row[0] for row in found] == ["`msgspec`", "`rich`", "**core**", "**core and more**"]
    sizes = [float(row[3]) for row in found]
    assert sizes[2] == sizes[0]
    assert sizes[3] == pytest.approx(sizes[0] + sizes[1], abs=0.2)


def test_package_that_is_not_installed_is_named(benchmark):
    with pytest.raises(SystemExit, match="nothing-such is not installed"):
        benchmark.megabytes(["nothing-such"])
