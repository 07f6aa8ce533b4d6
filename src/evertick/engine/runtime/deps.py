"""What the loops of one worker share."""

from dataclasses import dataclass

from evertick.base.clock import Clock
from evertick.base.ids import Entropy, IdMaker
from evertick.engine.runtime.executors import Executors
from evertick.engine.runtime.metrics import Counters
from evertick.engine.runtime.runner import Runner
from evertick.engine.runtime.settings import Settings
from evertick.store.contract.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDeps:
    """Everything the engine gets from outside: the store, the runner of functions, time, ids and chance."""

    store: Store
    executors: Executors
    runner: Runner
    clock: Clock
    ids: IdMaker
    entropy: Entropy
    settings: Settings
    counters: Counters
    app: str = ""
    """The app whose functions the worker runs."""
    pools: tuple[str, ...] | None = None
    """The pools that the worker serves; None for all."""
