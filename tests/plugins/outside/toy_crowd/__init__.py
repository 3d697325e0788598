"""A package outside of incrowd that adds a randomizer and a task; importing it loads neither."""

from incrowd.randomizers.registry import RandomizerPlugin
from incrowd.tasks.registry import TaskPlugin

COIN = RandomizerPlugin(kind="toy-coin", domain="category", target="toy_crowd.coin:ToyCoin")
PERCENT = TaskPlugin(kind="toy-percent", domain="category", target="toy_crowd.percent:ToyPercent")
