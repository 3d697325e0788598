"""Survey files that say what becomes of answers outside a question's domain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from incrowd import errors, survey

HISTOGRAM = 'kind = "histogram"\ncolumn = "mode"\ncategories = ["bus", "car"]'
MEAN = 'kind = "mean"\ncolumn = "minutes"\nbounds = [0, 60]'
QUANTILES = 'kind = "quantiles"\ncolumn = "minutes"\nbounds = [0, 60]\nbins = 8'
SUM = 'kind = "sum"\ncolumn = "minutes"\nbounds = [0, 60]'


def write(folder: Path, question: str, budget: str = "") -> Path:
    (folder / "people.csv").write_text("mode,minutes\n" + "bus,10\nboat,90\n,\ncar,20\n" * 25)
    path = folder / "survey.toml"
    path.write_text(
        f'version = 2\n[data]\nfile = "people.csv"\n[[question]]\n{question}\n'
        f"[question.randomizer]\nepsilon = 1.0\n[budget]\nepsilon = 1.0\ndelta = 1e-6\n{budget}\n"
        '[protocol]\nkind = "local"\n'
    )
    return path


def test_survey_with_outside_other_has_a_category_of_its_own(tmp_path: Path) -> None:
    loaded = survey.load(write(tmp_path, f'{HISTOGRAM}\noutside = "other"'))
    assert loaded.task.labels == ("bus", "car", "other", "no answer")
    assert loaded.randomizer.categories == 4  # type: ignore[attr-defined]
    (truth,) = loaded.truths
    np.testing.assert_allclose(truth, [0.25] * 4)
    assert loaded.run(seed=1).result.labels == loaded.task.labels


@pytest.mark.parametrize("question", [MEAN, QUANTILES, SUM])
def test_survey_clamps_numbers_outside_bounds_and_nothing_else(
    tmp_path: Path, question: str
) -> None:
    said = survey.load(write(tmp_path, f'{question}\noutside = "clamp"'))
    assert said.task == survey.load(write(tmp_path, question)).task
    for wrong in ("other", "no answer"):
        with pytest.raises(errors.InvalidConfig, match=f"outside: expected clamp, got '{wrong}'"):
            survey.load(write(tmp_path, f'{question}\noutside = "{wrong}"'))


def test_survey_refuses_unknown_rule_for_categories(tmp_path: Path) -> None:
    with pytest.raises(errors.IncrowdError, match="outside: expected no answer or other"):
        survey.load(write(tmp_path, f'{HISTOGRAM}\noutside = "clamp"'))


@pytest.mark.parametrize("rule", ["refuse", "drop"])
def test_survey_for_network_refuses_rules_that_depend_on_answers(tmp_path: Path, rule: str) -> None:
    path = write(tmp_path, f'{HISTOGRAM}\nmissing = "{rule}"')
    with pytest.raises(errors.InvalidParameter, match="must not depend on its answer"):
        survey.load_question(path, 100)
