"""The errata can be checked: their tests and proofs exist, and none of their numbers is typed."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ERRATA = ROOT / "docs" / "errata"
PAGES = sorted(set(ERRATA.glob("*.md")) - {ERRATA / "index.md"})
FIXED = {"Summary", "What stands"}
TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")
THEORY = re.compile(r"\]\((\.\./theory/\w+\.md)(?:#([^)\s]+))?\)")
PIECE = re.compile(r"<!-- begin: (?P<name>[\w-]+) .*?<!-- end: (?P=name) -->", re.S)


def sections(page: Path) -> dict[str, str]:
    """The text below each heading of the second level."""
    _, *parts = re.split(r"^## (.+)$", page.read_text(), flags=re.M)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@cache
def names_of(path: Path) -> set[str]:
    """The tests of a module, read off its source; those of a class follow its name."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}::{each.name}"
                for each in node.body
                if isinstance(each, ast.FunctionDef)
            }
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


@cache
def anchors_of(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.M)
    return {
        re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", each.lower()).strip()) for each in headings
    }


def test_errata_cover_five_papers() -> None:
    assert len(PAGES) == 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_errata_name_tests_that_exist(page: Path) -> None:
    named = TEST.findall(page.read_text())
    assert named
    for path, test in named:
        assert (ROOT / path).is_file(), path
        assert test in names_of(ROOT / path), f"{path}::{test}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_errata_link_to_theory_that_exists(page: Path) -> None:
    links = THEORY.findall(page.read_text())
    assert links
    for place, anchor in links:
        found = (page.parent / place).resolve()
        assert found.is_file(), place
        assert not anchor or anchor in anchors_of(found), f"{place}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_errata_claims_have_test_and_proof(page: Path) -> None:
    found = sections(page)
    assert set(found) > FIXED
    for heading, text in found.items():
        if heading not in FIXED:
            assert TEST.search(text), heading
            assert THEORY.search(text), heading
    rows = re.findall(r"^\| .* \|$", found["Summary"], re.M)[2:]
    assert len(rows) == len(found) - len(FIXED), "a row for each claim"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_errata_figures_are_generated(page: Path) -> None:
    typed = PIECE.sub("", page.read_text())
    assert not re.findall(r"\d\.\d{3,}|\d[eE]-?\d", typed)
