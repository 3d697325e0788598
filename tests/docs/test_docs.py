"""The documentation is true: its code runs, its links lead somewhere, its numbers are fresh."""

import re
from pathlib import Path
from typing import Any

import pytest

import incrowd
from docs.walkthrough import walked_pages
from tests.docs.generating import assert_fresh, generate

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.M | re.S)
GENERATED = "gallery/index"
"""The entry that names no page in Markdown: the gallery is made from its scripts."""
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(path: Path) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "", FENCED.sub("", path.read_text()))


def anchors(path: Path) -> set[str]:
    """The anchors that the headings of a page get."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", path.read_text()), re.M)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in headings)
    return {re.sub(r"[\s-]+", "-", heading) for heading in plain}


def blocks(path: Path) -> list[str]:
    return PYTHON.findall(path.read_text())


PLAIN = [each for each in PAGES if blocks(each) and each not in walked_pages()]
"""Pages whose Python runs by itself; all blocks of the others are executed in order elsewhere."""


@pytest.mark.parametrize("page", PLAIN, ids=name)
def test_python_blocks_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    namespace: dict[str, Any] = {}
    for block in blocks(page):
        exec(compile(block, name(page), "exec"), namespace)


def test_first_pages_contain_python_blocks() -> None:
    assert blocks(ROOT / "README.md")
    assert blocks(DOCS / "tutorial.md")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        found = (page.parent / place).resolve() if place else page
        assert found.is_file(), f"{name(page)} links to {target}"
        if anchor:
            assert anchor in anchors(found), f"{name(page)} links to {target}"


def entries(page: Path) -> list[Path]:
    """The pages below one, in the order of its tables of contents."""
    found: list[Path] = []
    for block in TOCTREE.findall(page.read_text()):
        for line in block.splitlines():
            entry = re.sub(r".*<(.+)>$", r"\1", line.strip())
            if entry and not entry.startswith(":"):
                matches = sorted({*page.parent.glob(f"{entry}.md")} - {page})
                assert matches or entry == GENERATED, f"{name(page)} lists {entry}"
                found += [each for each in matches if each not in found]
    return found


def test_navigation_reaches_all_pages_once() -> None:
    listed = waiting = [DOCS / "index.md"]
    while waiting:
        waiting = [below for page in waiting for below in entries(page)]
        listed = listed + waiting
    assert len(listed) == len(set(listed))
    assert set(listed) == set(DOCS.rglob("*.md"))


def test_command_line_page_lists_all_commands() -> None:

    from incrowd.cli.app import build

    def paths(command: Any, path: str) -> list[str]:
        below = getattr(command, "commands", {})
        return [path, *(each for key in below for each in paths(below[key], f"{path} {key}"))]

    headings = re.findall(r"^## (.+)$", (DOCS / "command-line.md").read_text(), re.M)
    assert headings == paths(build(), "incrowd")


def test_citation_states_package_version() -> None:
    assert f"\nversion: {incrowd.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_generated_pieces_are_fresh() -> None:
    pages = [ROOT / "README.md", *(each for each in PAGES if each.is_relative_to(DOCS))]
    marked = [each for each in pages if "<!-- begin: " in each.read_text()]
    assert_fresh(*(each for each in marked if each not in walked_pages()))


class TestGenerator:
    """A project of one page, to see that staleness is noticed."""

    PAGE = "Before.\n\n<!-- begin: {0} (make docs-figures) -->\n{1}\n<!-- end: {0} -->\n\nAfter.\n"

    @pytest.fixture
    def script(self, tmp_path: Path) -> Path:
        (tmp_path / "docs").mkdir()
        for each in DOCS.glob("*.py"):
            (tmp_path / "docs" / each.name).write_text(each.read_text())
        return tmp_path / "docs" / "generate.py"

    def write(self, script: Path, piece: str, content: str) -> Path:
        page = script.parents[1] / "README.md"
        page.write_text(self.PAGE.format(piece, content))
        return page

    def test_stale_pieces_fail_and_are_rewritten(self, script: Path) -> None:
        page = self.write(script, "refused-floor", "error: something else")
        before = page.read_text()
        ended = generate(script, "--check")
        assert ended.returncode == 1
        assert "README.md: stale" in ended.stdout
        assert page.read_text() == before
        assert generate(script).returncode == 0
        assert "(exit code 51)" in page.read_text()
        assert page.read_text().startswith("Before.\n")
        assert page.read_text().endswith("After.\n")
        assert generate(script, "--check").returncode == 0

    def test_output_of_python_is_shown(self, script: Path) -> None:
        page = self.write(script, "output-sum", "")
        page.write_text("```python\nprint(6 * 7)\n```\n\n" + page.read_text())
        assert generate(script).returncode == 0
        assert "```text\n42\n```" in page.read_text()

    @pytest.mark.parametrize("piece", ["no-such-piece", "table-no-such-table"])
    def test_unknown_pieces_are_refused(self, script: Path, piece: str) -> None:
        self.write(script, piece, "")
        ended = generate(script)
        assert ended.returncode == 1
        assert piece.removeprefix("table-").replace("-", "_") in ended.stdout.replace("-", "_")

    def test_piece_without_end_is_refused(self, script: Path) -> None:
        page = self.write(script, "protocols", "")
        page.write_text(page.read_text().replace("end: protocols", "end: protocol"))
        ended = generate(script)
        assert ended.returncode == 1
        assert "README.md: a marked piece has no end" in ended.stdout
