"""`app.audit_log`: who changed what, over HTTP or on the command line.

A line is written in the transaction of the change, so there is one exactly if the change was made.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from evertick.api.access import AuditPage, AuditView
from evertick.api.schema import Schema
from evertick.app.surfaces import Awaited, Blocking, Surface, reads
from evertick.app.transacting import Work
from evertick.base.errors import LimitExceeded, Misuse
from evertick.base.ids import AUDIT_PREFIX, TenantId, table_of, tenant_named
from evertick.base.instants import Instant
from evertick.base.records.access import AuditLine
from evertick.store.contract.store import Transaction

T = TypeVar("T")

PAGE_MAX: Final = 1_000
CHARS_MAX: Final = 65_536
"""Characters of `before` and of `after` that are kept; of more, that there were more."""


@dataclass(frozen=True, slots=True)
class AuditOperations:
    """What may be read of the audit log."""

    def list(self, *, tenant: str | None = None, limit: int = 100, cursor: str | None = None) -> Work[AuditPage]:
        """What was changed of a tenant, or with None of everything, the newest first; at most `limit`, up to 1,000.

        Raises LimitExceeded, InvalidTenant, Misuse for a cursor of another list.
        """
        whose = None if tenant is None else tenant_named(tenant)
        if type(limit) is not int or not 1 <= limit <= PAGE_MAX:
            raise LimitExceeded(f"limit is a whole number from 1 to {PAGE_MAX:,}, not {limit!r}")
        if cursor is not None and table_of(cursor) != AUDIT_PREFIX:
            raise Misuse(f"{cursor!r} is not the cursor of a list of changes")

        def work(transaction: Transaction) -> AuditPage:
            found = transaction.list_audit(whose, before=cursor or "", limit=limit + 1)
            page = found[:limit]
            return AuditPage(
                changes=tuple(AuditView.of(line) for line in page),
                cursor=page[-1].id if len(found) > limit else None,
            )

        return work


class _AuditSurface(Surface[AuditOperations]):
    """The audit log."""

    list = reads(AuditOperations.list)


class AuditLog(Blocking[AuditOperations], _AuditSurface):
    """`app.audit_log`."""


class AsyncAuditLog(Awaited[AuditOperations], _AuditSurface):
    """`app.aio.audit_log`: as `AuditLog`, and every call is awaited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditor:
    """Writes lines in the name of an actor."""

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
        """The work, with a line about it in the same transaction.

        `before` reads the thing as it is; `target` may be made from the work's result.
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
    """A thing as it is kept in the log, without secrets."""
    shown = value.to_json() if isinstance(value, Schema) else value
    if shown is None:
        return None
    if isinstance(shown, dict):
        shown = {name: each for name, each in shown.items() if name != "secret"}
    text = json.dumps(shown, default=str, separators=(",", ":"))
    if len(text) <= CHARS_MAX:
        return text
    return json.dumps({"too_long": f"{len(text):,} characters; the log keeps {CHARS_MAX:,}"})
