from __future__ import annotations

import pytest
from contract import DELTA, ProtocolContract

from incrowd.protocols.local import Local
from incrowd.randomizers import KRR, Gaussian


class TestLocal(ProtocolContract):
    kind = "local"

    @pytest.mark.parametrize("view", ["curator", "curator+hub", "everyone"])
    def test_guarantee_is_epsilon0_for_all_crowds_and_views(self, view):
        epsilons = {
            Local(KRR(categories=4, epsilon=1.5), n=n).guarantee(view).epsilon(DELTA)
            for n in (1, 10**6)
        }
        assert len(epsilons) == 1
        assert epsilons.pop() == pytest.approx(1.5, rel=1e-5)

    def test_guarantee_composes_rounds(self):
        once, often = (
            Local(KRR(categories=4, epsilon=0.1), n=5, rounds=rounds) for rounds in (1, 400)
        )
        assert often.guarantee().epsilon(DELTA) > once.guarantee().epsilon(DELTA)
        # Four hundred rounds cost far less than four hundred times one.
        assert often.guarantee().epsilon(DELTA) < 20

    def test_gaussian_guarantee_keeps_delta(self):
        guarantee = Local(Gaussian(epsilon=1.0, delta=1e-5), n=5).guarantee()
        assert guarantee.epsilon(1e-5) == pytest.approx(1.0, rel=1e-2)
        assert guarantee.epsilon(1e-8) > 1.0

    def test_guarantee_names_theorem(self):
        assert (
            "docs/theory/local.md" in Local(KRR(categories=4, epsilon=1.0), n=5).guarantee().theorem
        )
