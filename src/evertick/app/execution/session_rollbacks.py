"""Which rollbacks of `ctx.session` are refused: those that would undo a half of what the function did."""

from typing import Any, Final

from evertick.base.errors import Misuse
from evertick.store.transaction.unit_of_work import FunctionUnit

_HALF: Final = (
    "ctx.session cannot roll back here: ctx.db, ctx.scheduler or ctx.connection were used too, and half of what the "
    "function did would stay; raise to undo everything, or put `with ctx.session.begin_nested():` around less"
)


class Rollbacks:
    """The savepoints of one session, and what the function did otherwise since each.

    A rollback of the session undoes what the session did since its last commit, one of `begin_nested()` what it did
    inside. If the function wrote something by other means in that time, before or after the session did, it is refused.
    """

    def __init__(self, unit: FunctionUnit, *, may_write: bool, has_written: bool) -> None:
        """`has_written`: the function has done so before it asked for the session."""
        self._unit = unit
        self._marks: dict[str, int] = {}
        self._since = unit.touches - has_written
        self._may_write = may_write
        self._is_flushing = False
        self._is_half = False
        self.is_over = False
        """The function has failed or returned: what fails is undone as a whole, with all that Evertick wrote."""

    def begin(self, savepoint: str) -> None:
        """A savepoint is made. The outermost is the session's own transaction, the others are begun by the user."""
        self._marks[savepoint] = self._unit.touches if self._marks else self._since

    def keep(self, savepoint: str) -> None:
        """A savepoint's work is kept."""
        self._forget(savepoint)
        if not self._marks:
            self._since = self._unit.touches

    def check(self, savepoint: str) -> None:
        """A savepoint's work is about to be undone. Raises Misuse if that would be a half.

        After a flush that failed, SQLAlchemy does so by itself. The flush's own error tells more then, so that one is
        raised, and the function fails at its end unless it has by then.
        """
        if self.is_over:
            return
        is_half = self._may_write and self._marks.get(savepoint, self._unit.touches) != self._unit.touches
        if is_half and not self._is_flushing:
            raise Misuse(_HALF)
        self._is_half |= is_half
        self._is_flushing = False
        self._forget(savepoint)

    def check_end(self) -> None:
        """The function returns, and wants all kept. Raises Misuse if a half was undone."""
        if self._is_half:
            raise Misuse(_HALF)

    def flush_begins(self, *_: Any) -> None:
        """Until it is done, a rollback is SQLAlchemy's own."""
        self._is_flushing = True

    def flush_is_done(self, *_: Any) -> None:
        """From now on, a rollback is the user's."""
        self._is_flushing = False

    def _forget(self, savepoint: str) -> None:
        """With a savepoint go those inside it."""
        names = list(self._marks)
        if savepoint in self._marks:
            for name in names[names.index(savepoint) :]:
                del self._marks[name]
