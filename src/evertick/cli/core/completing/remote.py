"""Names on a server: asked for with a limit of time, and kept for some seconds (`cache.py`)."""

import hashlib
from collections.abc import Callable, Iterable
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from evertick.base.ids import TenantId
from evertick.cli.core.completing import cache
from evertick.cli.core.completing.kinds import Kind
from evertick.cli.core.connections import Server, open_client

if TYPE_CHECKING:
    from evertick.client.clients import Client

WAIT_S: Final = 2.0
"""How long the server may take, all in all."""
ROWS_MAX: Final = 200


def names(server: Server, kind: Kind, tenant: TenantId | None, begins: str, schedule: str | None) -> Iterable[str]:
    """Candidates of a kind from the server or the cache. Schedules are only those that begin with `begins`.

    `schedule` is the schedule whose backfills are listed.
    """
    whose = hashlib.sha256((server.token or "").encode()).hexdigest()
    begins = begins if kind in (Kind.SCHEDULE, Kind.CRON, Kind.TENANT) else ""  # all others come whole
    asked = (server.url, whose, str(tenant or server.tenant or ""), kind.value, begins, schedule or "")
    found = cache.kept(asked)
    if found is None:
        with open_client(server, tenant, timeout=WAIT_S, retries=0) as client:
            read = _in_time(lambda: list(dict.fromkeys(_names(client, kind, begins, schedule))))
        cache.keep(asked, read)
        found = read or []
    return found


def _in_time(work: Callable[[], list[str]]) -> list[str] | None:
    """Return the result of `work`; None if it fails or takes longer than `WAIT_S`."""
    found: list[list[str]] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception:  # there is no place for a message in the middle of a command line
            return

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    return found[0] if found else None


def _names(client: "Client", kind: Kind, begins: str, schedule: str | None) -> Iterable[str]:
    def rows(path: str, member: str | None = None, **query: Any) -> list[dict[str, Any]]:
        found = client.request("GET", path, query={name: each for name, each in query.items() if each})
        listed: list[dict[str, Any]] = found if member is None else found[member]
        return listed

    match kind:
        case Kind.JOB:
            return [row["id"] for row in rows("jobs", "jobs", limit=ROWS_MAX)]
        case Kind.RUN:
            found = rows("workflows", "runs", limit=ROWS_MAX)
            return [name for row in found for name in (row["key"], row["id"]) if name]
        case Kind.WORKFLOW:
            return [row["name"] for row in rows("functions") if row["kind"] == "workflow"]
        case Kind.FUNCTION:
            return [row["name"] for row in rows("functions")]
        case Kind.SCHEDULE | Kind.CRON:
            only = kind.value if kind is Kind.CRON else None
            return [row["id"] for row in rows("schedules", "schedules", id_contains=begins, kind=only, limit=ROWS_MAX)]
        case Kind.BACKFILL:
            return [row.id for row in client.schedules.backfills(schedule or "")]
        case Kind.POOL:
            return [row["pool"] for row in rows("/api/v1/pools")]
        case Kind.SCRIPT:
            return [row["name"] for row in rows("scripts", limit=ROWS_MAX)]
        case Kind.TENANT:
            return [row["tenant"] for row in rows("/api/v1/tenants", first=begins, limit=ROWS_MAX)]
