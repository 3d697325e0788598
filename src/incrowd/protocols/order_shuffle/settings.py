"""Words that settings of an order-private shuffle may have."""

from __future__ import annotations

from typing import Literal

Distance = Literal["kendall", "hamming"]
Metric = Literal["euclidean", "haversine"]
Shape = Literal["ball", "square"]
Method = Literal["best", "label", "coordinate", "hilbert", "strips", "bfs", "bfs-peripheral", "rcm"]
