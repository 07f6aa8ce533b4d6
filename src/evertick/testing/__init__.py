"""Testing: a simulated world whose clock jumps.

    with World(app, at="2026-03-29T00:59:58Z") as world:
        message_id = world.call(send, "hello")
        world.advance(minutes(5))
        assert world.get(message_id) is None

The pytest plugin lives in this package and is loaded in every run of pytest, so the names are imported on first use.
"""

from typing import TYPE_CHECKING

from evertick.base.lazy import lazy_names

if TYPE_CHECKING:
    from evertick.testing.jobs import JobView as JobView
    from evertick.testing.moments import (
        moment as moment,
        days as days,
        hours as hours,
        minutes as minutes,
        seconds as seconds,
    )
    from evertick.testing.replaying import replay as replay
    from evertick.testing.world import World as World
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "evertick.testing.jobs": "JobView",
            "evertick.testing.moments": "days hours minutes moment seconds",
            "evertick.testing.replaying": "replay",
            "evertick.testing.world": "World",
        },
    )
