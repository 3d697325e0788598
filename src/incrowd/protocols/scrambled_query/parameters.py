"""What can be set about a scrambled query."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, get_args

import msgspec

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.protocols.settings import Parameters, parameter

Mode = Literal["scrambler", "capped", "local"]
"""Who hides where a message goes: a scrambler, one that caps each target, or its sender alone."""
Answers = Literal["all", "one"]
"""Which grouping sets a person answers: all of them, or one that is drawn without looking."""

_MOST = 10_000_000
_MOST_SETS = 1000


class ScramblerParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of :class:`~incrowd.protocols.scrambled_query.ScrambledQuery`."""

    any_crowd: ClassVar[bool] = True

    n: Annotated[
        int, parameter("people who have a tuple", default="as many as one scrambler takes")
    ] = 0
    targets: Annotated[
        int,
        parameter("compute nodes that share the cells of each grouping set", default=""),
    ] = 0
    sampling: Annotated[
        float,
        parameter(
            "chance that a message goes to a compute node drawn at random, without its tuple",
            solve="min",
            most=1.0,
        ),
    ] = 0.0
    sources: Annotated[
        int,
        parameter("people whose messages one scrambler mixes", solve="min", most=_MOST, default=""),
    ] = 0
    dummies: Annotated[
        int,
        parameter(
            "messages without a tuple that a scrambler adds; with mode local, that everyone adds",
            solve="min",
            most=_MOST,
        ),
    ] = 0
    mode: Annotated[
        Mode,
        parameter(
            "scramblers, scramblers that cap what one compute node gets, or none: everyone adds "
            "their own dummies"
        ),
    ] = "scrambler"
    grouping_sets: Annotated[int, parameter("grouping sets that a tuple goes to")] = 1
    answers: Annotated[
        Answers,
        parameter("whether everyone answers all grouping sets, or one that is drawn for them"),
    ] = "all"
    release: Annotated[
        float,
        parameter(
            "the ε of noise in the result, per person; without noise whoever gets it is trusted",
            default="none",
        ),
    ] = 0.0
    spares: Annotated[int, parameter("scramblers that stand by for those that die")] = 0

    def __post_init__(self) -> None:
        """Refuse settings that describe no query, or that do not go together."""
        for name, words in (("mode", Mode), ("answers", Answers)):
            if getattr(self, name) not in get_args(words):
                known = ", ".join(get_args(words))
                raise InvalidParameter(
                    f"{name} must be one of {known}, got {getattr(self, name)!r}", field=name
                )
        for name, least in (
            ("targets", 0),
            ("sources", 0),
            ("dummies", 0),
            ("grouping_sets", 1),
            ("spares", 0),
        ):
            whole = checks.integer(getattr(self, name), name, least)
            most = _MOST_SETS if name == "grouping_sets" else _MOST
            if whole > most:
                raise InvalidParameter(
                    f"{name} must be at most {most:,}, got {whole:,}", field=name
                )
            msgspec.structs.force_setattr(self, name, whole)
        if not 0 <= checks.number(self.sampling, "sampling") <= 1:
            raise InvalidParameter(
                f"sampling must be between 0 and 1, got {self.sampling!r}", field="sampling"
            )
        if checks.number(self.release, "release") < 0:
            raise InvalidParameter(
                f"release must not be negative, got {self.release!r}", field="release"
            )
        if self.n:
            Parameters.__post_init__(self)
        self._check_together()

    def _check_together(self) -> None:
        if self.mode == "local":
            if self.sources:
                raise InvalidParameter(
                    "sources are for scramblers: with mode local there are none", field="sources"
                )
            if self.spares:
                raise InvalidParameter(
                    "spares are for scramblers: with mode local there are none", field="spares"
                )
            if self.targets and self.dummies >= max(2, self.targets):
                raise InvalidParameter(
                    f"dummies must be at most targets − 1 = {self.targets - 1} with mode local: "
                    "each goes to a compute node of its own",
                    field="dummies",
                )
            return
        if self.n and self.sources > self.n:
            raise InvalidCrowd(
                f"n = {self.n} people are fewer than the {self.sources} that a scrambler needs: "
                "lower sources, or ask more people",
                field="n",
            )

    @property
    def people(self) -> int:
        """How many people have a tuple."""
        return self.n or self.sources or 1

    @property
    def groups(self) -> int:
        """How many scramblers it takes for one grouping set; none with mode local."""
        # Where everyone answers one set, a set has only its share of the people.
        sets = self.grouping_sets if self.answers == "one" else 1
        return -(-self.people // (self.sources * sets)) if self.sources else 0

    @property
    def release_per_set(self) -> float:
        """The ε of the noise of one grouping set: shared by those that one person answers."""
        return self.release / (1 if self.answers == "one" else self.grouping_sets)
