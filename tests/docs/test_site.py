"""The built pages: complete, without warnings, and nothing in them is fetched from another host."""

import html
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import incrowd as ic

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NEEDED = (
    "sphinx",
    "myst_parser",
    "pydata_sphinx_theme",
    "sphinx_copybutton",
    "sphinx_gallery",
    "latex2mathml",
)
OPENED = ("index", "theory/blanket", "api/protocols", "gallery/index")
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\b(?:src|srcset)\s*=\s*["']?([^"'>]+)
      | <link\b(?![^>]*rel=["']?(?:next|prev|search|index|author|canonical))
          [^>]*?\bhref\s*=\s*["']?([^"'>\s]+)
      | url\(\s*["']?([^"')]+)
      | @import\s+["']([^"']+)""",
    re.X | re.I,
)


def fetched(text: str) -> list[str]:
    """Everything that a browser fetches by itself for a page or style sheet."""
    return [next(filter(None, found.groups())) for found in FETCHED.finditer(text)]


def foreign(site: Path) -> set[tuple[str, str]]:
    """Pages and style sheets, each with an address on another host that it fetches."""
    return {
        (str(path.relative_to(site)), address)
        for path in site.rglob("*")
        if path.suffix in {".html", ".css"}
        for address in fetched(path.read_text())
        if "//" in address and not address.startswith("data:")
    }


def documented(site: Path) -> set[str]:
    """The Python names of the reference."""
    from sphinx.util.inventory import InventoryFile

    found = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    return {name for kind, names in found.data.items() if kind.startswith("py:") for name in names}


def public_names() -> set[str]:
    """Names that the reference must describe: those of the packages, and protocols and learners."""
    packages = [each for each in ic.__all__ if inspect.ismodule(getattr(ic, each))]
    described = {
        f"incrowd.{package}.{name}" for package in packages for name in getattr(ic, package).__all__
    }
    shorts = {name.rpartition(".")[2] for name in described}
    own = {each for each in ic.__all__ if each not in {*packages, *shorts, "__version__"}}
    return described | {f"incrowd.{name}" for name in own}


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address at which the pages are served on this machine."""
    handler = partial(QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


def opened(address: str, folder: Path) -> tuple[str, set[str]]:
    """The page as a browser has it after its scripts ran, and the addresses that it asked for."""
    log = folder / "net.json"
    ended = subprocess.run(
        [
            str(CHROMIUM),
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--user-data-dir={folder / 'profile'}",
            f"--log-net-log={log}",
            "--virtual-time-budget=10000",
            "--dump-dom",
            address,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    events = [each.get("params", {}) for each in json.loads(log.read_text())["events"]]
    # Requests of the browser itself have no page as their initiator.
    page = "/".join(address.split("/")[:3])
    return ended.stdout, {each["url"] for each in events if each.get("initiator") == page}


@pytest.mark.parametrize(
    "text",
    [
        '<script async src="https://example.org/a"></script>',
        "<img alt='' src=https://example.org/a>",
        '<link rel="stylesheet" href="https://example.org/a" />',
        "p { background: url(https://example.org/a); }",
        "@import 'https://example.org/a';",
    ],
)
def test_address_that_a_browser_fetches_is_found(text: str) -> None:
    assert fetched(text) == ["https://example.org/a"]


def test_link_to_follow_is_not_taken_for_a_fetch() -> None:
    assert fetched('<a href="https://example.org/a">paper</a>') == []


@pytest.mark.parametrize(
    ("tex", "holds"),
    [
        (r"\mathcal Y", "\N{MATHEMATICAL SCRIPT CAPITAL Y}"),
        (r"\mathbb{R}", "\N{DOUBLE-STRUCK CAPITAL R}"),
        (r"\mathrm{d}P", "<mtext>d</mtext>"),
        (r"\bigl\{x\bigr\}", ">{</mo>"),
        (r"X\sim N", "<mo>\N{TILDE OPERATOR}</mo>"),
    ],
)
def test_formula_becomes_mathml_that_browsers_draw(
    tex: str, holds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("docutils", reason="needs the group docs")
    pytest.importorskip("latex2mathml", reason="needs the group docs")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    mathml = importlib.import_module("mathml")
    made = mathml.mathml(tex, "inline")
    assert made.startswith("<math")
    assert html.unescape(holds) in html.unescape(made)


@pytest.mark.slow
def test_built_site_is_complete_and_fetches_nothing_elsewhere(tmp_path: Path) -> None:
    if missing := [each for each in NEEDED if find_spec(each) is None]:
        pytest.skip(f"needs the group docs: {', '.join(missing)} not installed")
    # Apart from the checkout, where the gallery's output is kept, and without running its scripts.
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("gallery"))
    shutil.copytree(ROOT / "examples" / "gallery", tmp_path / "examples" / "gallery")
    site = tmp_path / "site"
    built = subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"),
            *("-D", "plot_gallery=0", "-d", str(tmp_path / "doctrees")),
            *(str(tmp_path / "docs"), str(site)),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (built.returncode, built.stderr) == (0, "")

    assert public_names() <= documented(site)
    assert foreign(site) == set()
    assert not list(site.rglob("*mathjax*"))

    if CHROMIUM is None:
        pytest.skip("the pages are built; needs chromium to open them")
    with served(site) as root:
        for page in OPENED:
            folder = tmp_path / page.replace("/", "-")
            folder.mkdir()
            dom, asked = opened(f"{root}/{page}.html", folder)
            assert "<main" in dom
            assert f"{root}/_static/extra.css" in {each.partition("?")[0] for each in asked}
            assert {each for each in asked if not each.startswith(root)} == set()
        dom, _ = opened(f"{root}/search.html?q=guarantee", tmp_path)
        assert "guarantees.html" in dom
