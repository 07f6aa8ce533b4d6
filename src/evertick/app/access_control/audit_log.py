"""`app.audit_log`: who changed what, over HTTP or on the command line.

A line is written in the transaction of the change, so it exists exactly if the change was made.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypedDict, TypeVar, Unpack

from evertick.api.access import AuditPage, AuditView
from evertick.api.schema import Schema
from evertick.app.operations import Awaited, Blocking, reads
from evertick.app.transacting import Work
from evertick.base.errors import Misuse
from evertick.base.ids import AUDIT_PREFIX, TenantId, first_id_from, table_of, tenant_named
from evertick.base.instants import Instant, from_datetime
from evertick.base.paging import check_limit
from evertick.base.records.access import AuditLine
from evertick.store.transaction.transaction import Transaction

T = TypeVar("T")

PAGE_MAX: Final = 1_000
CHARS_MAX: Final = 65_536
"""Characters of `before` and of `after` that are stored; of longer ones only the length is stored."""

SCANNED_MAX: Final = 1_000
"""Changes that a page reads to find an actor, an action or a target."""


class AuditWhere(TypedDict, total=False):
    """Filters of changes; see `AuditOperations.list`."""

    actor: str | None
    action: str | None
    target: str | None
    start: datetime | None
    end: datetime | None


class AuditOperations:
    """Read access to the audit log."""

    @reads
    def list(
        self, *, tenant: str | None = None, limit: int = 100, cursor: str | None = None, **where: Unpack[AuditWhere]
    ) -> Work[AuditPage]:
        """The changes to a tenant's data, newest first; at most `limit`, up to 1,000. None means the changes of all
        tenants, and those that belong to no tenant.

            app.audit_log.list(tenant="acme", action="schedule.pause", start=datetime.now(UTC) - timedelta(days=1))

        `actor` and `action` must match exactly, `target` is a part of what was changed. `start` is inclusive, `end` is
        exclusive. With an actor, an action or a target a page searches 1,000 changes. It may therefore have few or no
        matches, and a cursor to continue.

        Raises LimitExceeded, InvalidTenant, InvalidDelay, Misuse for a cursor of another list or an unknown filter.
        """
        if unknown := where.keys() - AuditWhere.__annotations__.keys():
            raise Misuse(f"unknown filter of changes: {', '.join(sorted(unknown))}")
        first, beyond = _bound("start", where.get("start")), _bound("end", where.get("end"))
        whose = None if tenant is None else tenant_named(tenant)
        check_limit(limit, PAGE_MAX)
        if cursor is not None and table_of(cursor) != AUDIT_PREFIX:
            raise Misuse(f"{cursor!r} is not the cursor of a list of changes")

        def work(transaction: Transaction) -> AuditPage:
            before = min((each for each in (cursor, beyond) if each), default="")
            size = SCANNED_MAX if any(where.get(name) for name in ("actor", "action", "target")) else limit
            found = transaction.list_audit(whose, before=before, limit=size + 1)
            within = [line for line in found[:size] if line.id >= first]
            chosen = [line for line in within if _is_chosen(line, where)]
            page = chosen[:limit]
            ends_here = len(within) < size or len(found) <= size
            last = page[-1].id if len(chosen) > limit else None if ends_here else within[-1].id
            return AuditPage(changes=tuple(AuditView.of(line) for line in page), cursor=last)

        return work


def _bound(name: str, moment: datetime | None) -> str:
    """The smallest id of a change at this time; empty for None."""
    return "" if moment is None else first_id_from(AUDIT_PREFIX, from_datetime(moment, name))


def _is_chosen(line: AuditLine, where: AuditWhere) -> bool:
    return (
        where.get("actor") in (None, line.actor)
        and where.get("action") in (None, line.action)
        and (where.get("target") or "") in line.target
    )


class AuditLog(Blocking[AuditOperations], AuditOperations):
    """Lists who changed what, over HTTP or on the command line (`app.audit_log`)."""


class AsyncAuditLog(Awaited[AuditOperations], AuditOperations):
    """`app.aio.audit_log`: like `AuditLog`, but every call is awaited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditor:
    """Writes audit lines in the name of an actor."""

    actor: str
    request: str
    tenant: TenantId | None
    now: Callable[[], Instant]
    make_id: Callable[[str, Instant], str]

    def audited(
        self,
        work: Work[T],
        action: str,
        target: str | Callable[[T], str],
        *,
        before: Work[Any] | None = None,
    ) -> Work[T]:
        """Wrap work so that it also writes an audit line in the same transaction.

        `before` reads the state before the change; `target` may be a function of the work's result.
        """

        def both(transaction: Transaction) -> T:
            was = None if before is None else before(transaction)
            result = work(transaction)
            now = self.now()
            transaction.add_audit(
                AuditLine(
                    id=self.make_id(AUDIT_PREFIX, now),
                    tenant=self.tenant,
                    at=now,
                    actor=self.actor,
                    action=action,
                    target=target if isinstance(target, str) else target(result),
                    request=self.request,
                    before=_text(was),
                    after=_text(result),
                )
            )
            return result

        return both


def _text(value: Any) -> str | None:
    """A thing as the log stores it, without secrets; None if there is none."""
    shown = value.to_json() if isinstance(value, Schema) else value
    if shown is None:
        return None
    if isinstance(shown, dict):
        shown = {name: each for name, each in shown.items() if name != "secret"}
    text = json.dumps(shown, default=str, separators=(",", ":"))
    if len(text) <= CHARS_MAX:
        return text
    return json.dumps({"too_long": f"{len(text):,} characters; the log keeps {CHARS_MAX:,}"})
