"""In-memory simulation of actors, with a virtual clock and faults."""

from incrowd.sim.faults import Faults, Outage
from incrowd.sim.play import Played, Statistics, Traffic, play
from incrowd.sim.run import PlayedRun, run

__all__ = ["Faults", "Outage", "Played", "PlayedRun", "Statistics", "Traffic", "play", "run"]
