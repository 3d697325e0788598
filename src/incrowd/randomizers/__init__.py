"""Local randomizers: the noise that a device puts on an answer before it is sent.

=========================  ==========================  =============================================
kind                       values                      report
=========================  ==========================  =============================================
``generic``                any                         accounting only: the worst pure ε0-randomizer
``rr``, ``krr``            categories                  randomized response
``oue``, ``sue``           categories                  one noisy bit per category
``hadamard``               categories                  a column of a Hadamard matrix
``olh``                    categories                  a hash function and a noisy bucket
``channel``                categories                  an output of a matrix of one's own
``hierarchical``           ordered categories          a node of one level of a tree
``onebit``                 numbers in [0, 1]           one bit
``ternary``                numbers in [0, 1], or none  low, high or none
``laplace``, ``gaussian``  numbers in [0, 1]           the number plus noise
``privunit``               unit vectors                a unit vector from a cap
=========================  ==========================  =============================================

``OneOf`` (``one-of``) draws one of several of these for each report. ``GaussianVector`` adds noise
to unit vectors for protocols that add them up; it has no blanket and cannot be shuffled.
"""

from __future__ import annotations

from incrowd.randomizers._matrix import read_matrix
from incrowd.randomizers.base import Domain, Estimate, Randomizer, Reports
from incrowd.randomizers.channel import Channel
from incrowd.randomizers.hadamard import HadamardResponse
from incrowd.randomizers.hierarchical import Hierarchical
from incrowd.randomizers.law import PairLaw
from incrowd.randomizers.local_hash import OLH
from incrowd.randomizers.noise import Gaussian, GaussianVector, Laplace
from incrowd.randomizers.one_of import OneOf
from incrowd.randomizers.privunit import PrivUnit
from incrowd.randomizers.redirect import Redirect
from incrowd.randomizers.registry import RANDOMIZERS, RandomizerPlugin
from incrowd.randomizers.response import KRR, RR, Generic, OneBit, Unstated
from incrowd.randomizers.ternary import Ternary
from incrowd.randomizers.unary import OUE, SUE

__all__ = [
    "KRR",
    "OLH",
    "OUE",
    "RANDOMIZERS",
    "RR",
    "SUE",
    "Channel",
    "Domain",
    "Estimate",
    "Gaussian",
    "GaussianVector",
    "Generic",
    "HadamardResponse",
    "Hierarchical",
    "Laplace",
    "OneBit",
    "OneOf",
    "PairLaw",
    "PrivUnit",
    "Randomizer",
    "RandomizerPlugin",
    "Redirect",
    "Reports",
    "Ternary",
    "Unstated",
    "read_matrix",
]
