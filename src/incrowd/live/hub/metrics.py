"""What a hub counts, in Prometheus' text format, and nothing that could single anyone out.

Every label comes from a closed set that is known when the hub starts: reasons of refusal, states of
a survey, templates of routes, classes of status codes. No identifier, name, address or size is ever
a label, so the number of series is bounded and two surveys of equal shape look the same. Every
series is there from the beginning, at zero: that something never happened is visible as well.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from typing import Final

from incrowd.live.reasons import Reason

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OTHER: Final = "other"
"""The route of every request that matches none."""
STATUSES: Final = ("1xx", "2xx", "3xx", "4xx", "5xx")
_PREFIX: Final = "incrowd_hub_"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Histogram:
    """How many observations were at most each bound, and their sum."""

    def __init__(self, bounds: tuple[float, ...] = _SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one more."""
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterable[str]:
        """The samples, cumulative as the format wants them."""
        total = 0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            total += count
            yield f'{name}_bucket{{le="{bound:g}"}} {total}'
        total += self._counts[-1]
        yield f'{name}_bucket{{le="+Inf"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"


class Metrics:
    """Counters of one running hub; they start at zero with it."""

    def __init__(self, routes: Iterable[str] = ()) -> None:
        self.accepted = 0
        self.delivered = 0
        self.expired = 0
        self.connections = 0
        self.commits = Histogram()
        self._rejected = dict.fromkeys(Reason, 0)
        self._requests = {(route, status): 0 for route in (*routes, OTHER) for status in STATUSES}

    def reject(self, reason: Reason, count: int = 1) -> None:
        """Something, most often a cell, was refused."""
        self._rejected[reason] += count

    def rejected(self, reason: Reason) -> int:
        """How many were refused for this reason."""
        return self._rejected[reason]

    def request(self, route: str, status: int) -> None:
        """A request was answered."""
        key = (route, f"{status // 100}xx")
        self._requests[key if key in self._requests else (OTHER, key[1])] += 1

    def render(self, surveys: Mapping[str, int]) -> str:
        """Everything, with the number of surveys in each state."""
        lines: list[str] = []
        for name, kind, meaning, samples in (
            ("cells_accepted_total", "counter", "Cells stored.", [("", self.accepted)]),
            (
                "cells_rejected_total",
                "counter",
                "Cells and frames refused, by reason.",
                [(f'{{reason="{reason}"}}', count) for reason, count in self._rejected.items()],
            ),
            ("cells_delivered_total", "counter", "Cells taken.", [("", self.delivered)]),
            ("cells_expired_total", "counter", "Cells never taken.", [("", self.expired)]),
            ("connections", "gauge", "Parties connected.", [("", self.connections)]),
            (
                "surveys",
                "gauge",
                "Surveys by state.",
                [(f'{{state="{state}"}}', count) for state, count in surveys.items()],
            ),
            (
                "http_requests_total",
                "counter",
                "Requests answered, by route and class of status.",
                [
                    (f'{{route="{route}",status="{status}"}}', count)
                    for (route, status), count in self._requests.items()
                ],
            ),
        ):
            lines += _head(name, kind, meaning)
            lines += (f"{_PREFIX}{name}{labels} {count}" for labels, count in samples)
        lines += _head("commit_seconds", "histogram", "Time from asking for a commit to having it.")
        lines += self.commits.lines(f"{_PREFIX}commit_seconds")
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP {_PREFIX}{name} {meaning}", f"# TYPE {_PREFIX}{name} {kind}"]
