"""incrowd: answer a question together without anyone you must trust.

Everything public is here: ``import incrowd as ic``. Names are imported when they are first used, so
that the command line starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from incrowd._version import __version__

if TYPE_CHECKING:
    from incrowd import (
        data,
        errors,
        graphs,
        privacy,
        protocols,
        randomizers,
        report,
        sim,
        survey,
        tasks,
    )
    from incrowd.privacy import Guarantee
    from incrowd.protocols import Cost, Protocol, Run
    from incrowd.protocols.check_in import CheckIn
    from incrowd.protocols.check_in.learning import CheckInSGD
    from incrowd.protocols.local import Local
    from incrowd.protocols.network_shuffle import NetworkShuffle
    from incrowd.protocols.order_shuffle import OrderShuffle
    from incrowd.protocols.scrambled_query import ScrambledQuery
    from incrowd.protocols.scrambled_query.kmeans import ScrambledKMeans
    from incrowd.protocols.token_walk import TokenWalk
    from incrowd.protocols.token_walk.learning import TokenSGD
    from incrowd.protocols.trusted_shuffle import TrustedShuffle
    from incrowd.randomizers import (
        KRR,
        OLH,
        OUE,
        RR,
        SUE,
        Channel,
        Gaussian,
        GaussianVector,
        Generic,
        HadamardResponse,
        Hierarchical,
        Laplace,
        OneBit,
        OneOf,
        PrivUnit,
        Randomizer,
        Ternary,
    )
    from incrowd.tasks import Column, Histogram, Mean, Quantiles, Query, Release, Schema, Sum

__all__ = [
    "KRR",
    "OLH",
    "OUE",
    "RR",
    "SUE",
    "Channel",
    "CheckIn",
    "CheckInSGD",
    "Column",
    "Cost",
    "Gaussian",
    "GaussianVector",
    "Generic",
    "Guarantee",
    "HadamardResponse",
    "Hierarchical",
    "Histogram",
    "Laplace",
    "Local",
    "Mean",
    "NetworkShuffle",
    "OneBit",
    "OneOf",
    "OrderShuffle",
    "PrivUnit",
    "Protocol",
    "Quantiles",
    "Query",
    "Randomizer",
    "Release",
    "Run",
    "Schema",
    "ScrambledKMeans",
    "ScrambledQuery",
    "Sum",
    "Ternary",
    "TokenSGD",
    "TokenWalk",
    "TrustedShuffle",
    "__version__",
    "data",
    "errors",
    "graphs",
    "privacy",
    "protocols",
    "randomizers",
    "report",
    "sim",
    "survey",
    "tasks",
]

_PACKAGES = frozenset(
    {
        "data",
        "errors",
        "graphs",
        "privacy",
        "protocols",
        "randomizers",
        "report",
        "sim",
        "survey",
        "tasks",
    }
)
_HOMES = ("randomizers", "tasks", "privacy", "protocols")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"incrowd.{name}")
    if name in __all__:
        # Protocols, and learners beside them, are public by their declarations.
        found = import_module("incrowd.protocols.registry").exported(name)
        if found is not None:
            return found
        for home in _HOMES:
            package = import_module(f"incrowd.{home}")
            if name in package.__all__:
                return getattr(package, name)
    raise AttributeError(f"module 'incrowd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
