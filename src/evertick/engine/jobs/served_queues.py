"""Which queues of ready jobs a loop serves, and which it knows to be of others."""

from collections.abc import Callable, Sequence

from evertick.base.ids import DEFAULT_POOL, QueueId, queue_of
from evertick.base.instants import LONG_AGO, Instant
from evertick.base.records.jobs import ServedFunction
from evertick.store.contract.claims import Head
from evertick.store.contract.store import Transaction


class ServedQueues:
    """The queues of one loop: those for which `runs(pool, function)` is true; `functions` are the worker's.

    A loop looks at every queue with ready jobs but those that it knows to be of others. The name of a queue that it
    meets for the first time is read from one of its jobs. What was learned is forgotten from time to time, because
    functions may be registered after the worker's start. `pools` is where it notes the pool of each served queue.
    """

    def __init__(
        self,
        functions: Callable[[], Sequence[ServedFunction]],
        runs: Callable[[str, str], bool],
        pools: dict[QueueId, str],
        *,
        learn_every_ms: int,
    ) -> None:
        self._functions = functions
        self._runs = runs
        self._learn_every_ms = learn_every_ms
        self._served: dict[QueueId, bool] = {}
        self._learned_at = LONG_AGO
        self._pools = pools
        self.others: list[QueueId] = []
        """Queues of other apps, or of functions that are unknown here, of another kind, or in pools of others. A look
        passes them by."""

    def forget(self, now: Instant) -> None:
        """Before a look: after a while, learn anew."""
        if 0 <= now - self._learned_at < self._learn_every_ms:
            return
        self._learned_at = now
        self._served.clear()
        self.others.clear()
        for function in self._functions():
            for pool in {function.pool, DEFAULT_POOL}:
                self._learn(queue_of(pool, function.name), pool, function.name)

    def among(self, transaction: Transaction, heads: list[Head]) -> list[Head]:
        """The heads of served queues. Those of others that were not known are among `others` from now on."""
        for queue in {head.queue for head in heads} - self._served.keys():
            named = transaction.queue_name(queue)
            if named is not None:
                self._learn(queue, *named)
        return [head for head in heads if self._served.get(head.queue, False)]

    def serves(self, queue: QueueId, pool: str, name: str) -> bool:
        """Whether a queue is served, which may be known to have no ready job."""
        if queue not in self._served:
            self._learn(queue, pool, name)
        return self._served[queue]

    def _learn(self, queue: QueueId, pool: str, name: str) -> None:
        # A queue that is not that of its names holds jobs in a newer format, for code that computes it so.
        self._served[queue] = queue == queue_of(pool, name) and self._runs(pool, name)
        if self._served[queue]:
            self._pools[queue] = pool
        else:
            self.others.append(queue)
