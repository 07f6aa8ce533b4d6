"""`app.views`: saved filters of the lists of schedules, jobs and runs.

app.views.create("schedules", "Failing crons", {"kind": "cron", "health": "failing"}, shared=True)

A program has no views of its own: what it creates is shared. A token sees its own views and the shared ones.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from evertick.api.access import SavedView
from evertick.app.operations import Awaited, Blocking, reads, writes
from evertick.app.transacting import Work
from evertick.base.errors import AlreadyExists, LimitExceeded, Misuse, NotFound
from evertick.base.ids import VIEW_PREFIX, TenantId
from evertick.base.instants import Instant
from evertick.base.options import is_storable
from evertick.base.records.access import SavedViewRow
from evertick.store.transaction.transaction import Transaction

PAGES: Final = ("schedules", "jobs", "workflows")
"""The lists that have views."""
VIEWS_MAX: Final = 100
"""Views of one list that one token sees."""
NAME_CHARS_MAX: Final = 60
PARAMS_MAX: Final = 20
VALUE_CHARS_MAX: Final = 1_000
_PARAM: Final = re.compile(r"[a-z_]{1,30}")


@dataclass(slots=True, eq=False, repr=False)
class SavedViewOperations:
    """Operations on a tenant's views; `owner` is the id of the token that asks, empty for a program."""

    _tenant: TenantId
    _owner: str
    _actor: str
    _now: Callable[[], Instant]
    _make_id: Callable[[str, Instant], str]

    @reads
    def list(self, page: str) -> Work[tuple[SavedView, ...]]:
        """The views of a list (`schedules`, `jobs` or `workflows`), by name. Raises Misuse for another list."""
        _check_page(page)

        def work(transaction: Transaction) -> tuple[SavedView, ...]:
            rows = transaction.list_views(self._tenant, page, self._owner, limit=VIEWS_MAX)
            return tuple(SavedView.of(row) for row in rows)

        return work

    @reads
    def get(self, view_id: str) -> Work[SavedView]:
        """A saved view. Raises NotFound, also if it belongs to another token."""
        return lambda transaction: SavedView.of(self._found(transaction, view_id))

    @writes
    def create(self, page: str, name: str, params: Mapping[str, str], *, shared: bool = False) -> Work[SavedView]:
        """Save a view of a list. `params` are the query parameters of its address; at most 20.

        Raises Misuse for another list, for a name that is not printable text of 1 to 60 characters and for invalid
        parameters; AlreadyExists for a name that is taken; LimitExceeded for more than 100 views of a list.
        """
        _check_page(page)
        name, text = _name(name), _params(params)
        owner = "" if shared else self._owner

        def work(transaction: Transaction) -> SavedView:
            now = self._now()
            if len(transaction.list_views(self._tenant, page, self._owner, limit=VIEWS_MAX)) >= VIEWS_MAX:
                raise LimitExceeded(f"there are {VIEWS_MAX} views of this list; delete one first")
            view_id = self._make_id(VIEW_PREFIX, now)
            row = SavedViewRow(view_id, self._tenant, page, name, owner, text, self._actor, now, now)
            return self._saved(transaction, row)

        return work

    @writes
    def update(
        self,
        view_id: str,
        *,
        name: str | None = None,
        params: Mapping[str, str] | None = None,
        shared: bool | None = None,
    ) -> Work[SavedView]:
        """Change the name, the parameters, or whether all tokens see it; None leaves them unchanged. Raises NotFound,
        and the errors of `create`.
        """
        new_name, text = None if name is None else _name(name), None if params is None else _params(params)

        def work(transaction: Transaction) -> SavedView:
            old = self._found(transaction, view_id)
            owner = old.owner if shared is None else "" if shared else self._owner
            row = old._replace(
                name=new_name or old.name, params=text or old.params, owner=owner, updated_at=self._now()
            )
            return self._saved(transaction, row)

        return work

    @writes
    def delete(self, view_id: str) -> Work[SavedView]:
        """Remove a view; returns the removed view. Raises NotFound."""

        def work(transaction: Transaction) -> SavedView:
            row = self._found(transaction, view_id)
            transaction.delete_view(view_id, tenant=self._tenant)
            return SavedView.of(row)

        return work

    def _found(self, transaction: Transaction, view_id: str) -> SavedViewRow:
        row = transaction.get_view(view_id, tenant=self._tenant)
        if row is None or row.owner not in ("", self._owner):
            raise NotFound(f"no view {view_id!r}")
        return row

    def _saved(self, transaction: Transaction, row: SavedViewRow) -> SavedView:
        namesake = transaction.find_view(self._tenant, row.page, row.owner, row.name)
        if namesake is not None and namesake.id != row.id:
            raise AlreadyExists(f"a view {row.name!r} already exists; choose another name, or change that view")
        transaction.save_view(row)
        return SavedView.of(row)


class SavedViews(Blocking[SavedViewOperations], SavedViewOperations):
    """Saves filtered lists for people (`app.views`). Each call is its own transaction."""


class AsyncSavedViews(Awaited[SavedViewOperations], SavedViewOperations):
    """`app.aio.views`: like `SavedViews`, but every call is awaited."""


def _check_page(page: str) -> None:
    if page not in PAGES:
        raise Misuse(f"views exist for {', '.join(PAGES)}, not for {page!r}")


def _name(name: str) -> str:
    if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name.strip()) <= NAME_CHARS_MAX:
        raise Misuse(f"the name of a view must be printable text of 1 to {NAME_CHARS_MAX} characters")
    return name.strip()


def _params(params: Mapping[str, str]) -> str:
    if len(params) > PARAMS_MAX:
        raise Misuse(f"a view can have at most {PARAMS_MAX} parameters, not {len(params)}")
    for name, value in params.items():
        if not _PARAM.fullmatch(name) or len(value) > VALUE_CHARS_MAX:
            raise Misuse(f"{name[:40]!r} is not a parameter: use a-z and _, and up to {VALUE_CHARS_MAX} characters")
        if not is_storable(value):
            raise Misuse(f"the parameter {name!r} contains NUL or a lone surrogate; remove it")
    return json.dumps(dict(params))
