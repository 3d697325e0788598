"""The tables of the theory pages on public walks and on gossip."""

from pathlib import Path

import pytest

from experiments import token_theory


def test_experiment_writes_named_files(tmp_path: Path) -> None:
    assert token_theory.EXPERIMENT.main(["--quick", "--out", str(tmp_path)]) == 0
    for name in token_theory.EXPERIMENT.pieces:
        assert "experiments.token_theory" in (tmp_path / name).read_text(encoding="utf-8")


def test_hidden_path_needs_less_noise() -> None:
    (row,) = token_theory.noise_table(token_theory.QUICK).rows
    alone, public, hidden = (float(cell) for cell in row[3:])
    assert hidden < public < alone


def test_epsilon_falls_with_distance() -> None:
    rows = token_theory.distance_table(token_theory.QUICK).rows
    near, far = (float(row[-1]) for row in rows)
    assert far < near


def test_messages_with_shared_noise_do_not_add_up() -> None:
    for _, _, added, truth in token_theory.gossip_table(token_theory.QUICK).rows:
        assert float(added) < 0.5
        assert float(truth) == pytest.approx(1)
