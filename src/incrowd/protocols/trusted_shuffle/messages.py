"""Messages between the shuffler and the curator."""

from __future__ import annotations

from incrowd.protocols.runtime import wire


class Batch(wire.Body, frozen=True, tag="batch"):
    """From the shuffler to the curator: the reports of one round, permuted, and nothing else."""

    round: wire.Count
    payloads: list[bytes]


class BatchAccepted(wire.Body, frozen=True, tag="batch-accepted"):
    """From the curator to the shuffler: the batch of this round is safe."""

    round: wire.Count
