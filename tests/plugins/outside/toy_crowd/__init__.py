"""A package outside of incrowd: a randomizer, a task and a protocol, loaded when they are used."""

from incrowd.protocols.registry import Party, ProtocolPlugin
from incrowd.randomizers.registry import RandomizerPlugin
from incrowd.tasks.registry import TaskPlugin

COIN = RandomizerPlugin(kind="toy-coin", domain="category", target="toy_crowd.coin:ToyCoin")
PERCENT = TaskPlugin(kind="toy-percent", domain="category", target="toy_crowd.percent:ToyPercent")
POSTBOX = ProtocolPlugin(
    kind="toy-postbox",
    summary="reports go through a postbox that does not shuffle them",
    target="toy_crowd.postbox:ToyPostbox",
    default_randomizers={"category": ("toy-coin",)},
    stated_views=("curator", "curator+hub", "curator+postbox", "everyone"),
    commands={"toy-price": ("toy_crowd.price:price_command", "Bytes that a crowd of boxes costs.")},
    parties=(
        Party(
            name="postbox",
            number=300,
            description="the party that empties the box of sealed reports",
        ),
    ),
)
