"""Dependencies that the loops of one worker share."""

from dataclasses import dataclass, field

from evertick.base.clock import Clock
from evertick.base.ids import Entropy, IdMaker, QueueId
from evertick.engine.runtime.executors import Executors
from evertick.engine.runtime.metrics import Counters
from evertick.engine.runtime.runner import Runner
from evertick.engine.runtime.settings import Settings
from evertick.engine.runtime.tracing import Tracing
from evertick.store.store import Store


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """Shared by calls and workers of one app: the database, the executors, time, ids, randomness, settings."""

    app: str = ""
    """The app's name."""
    apps: tuple[str, ...] = ("",)
    """All names of the app: the current one and earlier ones."""
    store: Store
    executors: Executors
    clock: Clock
    ids: IdMaker
    entropy: Entropy
    settings: Settings
    tracing: Tracing | None = None
    """None if the app is not traced."""


@dataclass(slots=True, kw_only=True)
class EngineDeps(Surroundings):
    """Everything that a worker gets from outside."""

    runner: Runner
    counters: Counters
    pools: tuple[str, ...] | None = None
    """The full names of the pools that the worker serves. None means all of the app's."""
    pool_of_queue: dict[QueueId, str] = field(default_factory=dict)
    """The full name of the pool of each queue that its loops have found to be served."""
