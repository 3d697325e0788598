"""The scripts of the gallery run without a warning, and each draws a figure."""

import os
import runpy
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
SCRIPTS = sorted(GALLERY.glob("plot_*.py"))


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Figures that are open when a script shows them, far from the files of the repository."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    before = mpl.get_backend()
    plt.switch_backend("agg")
    yield plt.get_fignums
    plt.close("all")
    plt.switch_backend(before)


def test_gallery_has_twelve_scripts_in_order():
    numbers = [each.name.split("_")[1] for each in SCRIPTS]
    assert numbers == [f"{number:02}" for number in range(1, 13)]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.stem)
def test_script_draws_labelled_figure_without_warning(script, drawn, capfd):
    runpy.run_path(str(script), run_name="__main__")
    assert len(drawn()) == 1
    figure = plt.figure(drawn()[0])
    assert all(axes.get_xlabel() or axes.get_ylabel() for axes in figure.axes)
    figure.canvas.draw()  # glyphs that a font lacks are warned of here
    said = capfd.readouterr()
    assert said.out
    assert not said.err
    assert os.listdir() == []
