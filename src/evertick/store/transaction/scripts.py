"""Scripts over SQL."""

import json
from collections.abc import Sequence
from typing import Final

from evertick.base.ids import JobId, ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.jobs import SCRIPT_FUNCTION
from evertick.base.records.scripts import ScriptRow, ScriptRunRow, ScriptUsage, ScriptVersionRow
from evertick.store.transaction.statement_runner import Driver

VERSION_MAX: Final = 2**53


class Scripts(Driver):
    """Scripts of tenants, their versions, runs, limits and values."""

    def get_script(self, name: str, *, tenant: TenantId) -> ScriptRow | None:
        """One script; None if there is none."""
        rows = self._fetch("get_script", {"tenant": tenant, "name": name})
        return ScriptRow(*rows[0]) if rows else None

    def list_scripts(self, tenant: TenantId, *, limit: int, after: str = "") -> list[ScriptRow]:
        """The scripts of a tenant, by name."""
        rows = self._fetch("list_scripts", {"tenant": tenant, "after": after, "limit": limit})
        return [ScriptRow(*row) for row in rows]

    def unchanged_scripts(self, names: Sequence[str], *, tenant: TenantId) -> set[str]:
        """The scripts whose draft is the same as the published version."""
        params = {"tenant": tenant, "names": json.dumps(list(names))}
        return {name for (name,) in self._fetch("unchanged_scripts", params)}

    def count_scripts(self, tenant: TenantId) -> int:
        """How many scripts a tenant has."""
        return int(self._fetch("count_scripts", {"tenant": tenant})[0][0])

    def count_script_values(self, tenant: TenantId) -> int:
        """How many values the scripts of a tenant have stored."""
        return int(self._fetch("count_script_values", {"tenant": tenant})[0][0])

    def save_script(self, script: ScriptRow) -> None:
        """Write a script, new or changed."""
        self._run("save_script", script._asdict())

    def delete_script(self, name: str, *, tenant: TenantId) -> None:
        """Remove a script with its versions. Its runs stay for their retention."""
        self._run("delete_script", {"tenant": tenant, "name": name})
        self._run("delete_script_versions", {"tenant": tenant, "script": name})

    def add_script_version(self, version: ScriptVersionRow) -> None:
        """Write a new version."""
        self._run("add_script_version", version._asdict())

    def get_script_version(self, script: str, version: int, *, tenant: TenantId) -> ScriptVersionRow | None:
        """One version; None if there is none."""
        rows = self._fetch("get_script_version", {"tenant": tenant, "script": script, "version": version})
        return ScriptVersionRow(*rows[0]) if rows else None

    def list_script_versions(
        self, script: str, *, tenant: TenantId, limit: int, before: int | None = None
    ) -> list[ScriptVersionRow]:
        """The versions of a script, the newest first, below the number `before`."""
        params = {"tenant": tenant, "script": script, "before": before or VERSION_MAX, "limit": limit}
        return [ScriptVersionRow(*row) for row in self._fetch("list_script_versions", params)]

    def add_script_run(self, run: ScriptRunRow) -> None:
        """Store the usage of an attempt."""
        self._run("add_script_run", run._asdict())

    def list_script_runs(
        self, tenant: TenantId, *, script: str | None = None, limit: int, before: Instant, since: Instant = Instant(0)
    ) -> list[ScriptRunRow]:
        """The attempts of a tenant, or of one of its scripts, that ended before an instant, the newest first.

        `since` is for one script: only attempts that ended at this instant or later.
        """
        params = {"tenant": tenant, "before": before, "limit": limit}
        if script is None:
            rows = self._fetch("list_script_runs", params)
        else:
            rows = self._fetch("list_runs_of_script", {**params, "script": script, "since": since})
        return [ScriptRunRow(*row) for row in rows]

    def count_script_runs(self, tenant: TenantId, *, script: str, since: Instant) -> int:
        """How many attempts of a script ended at an instant or later."""
        return int(self._fetch("count_runs_of_script", {"tenant": tenant, "script": script, "since": since})[0][0])

    def script_runs_of_job(self, job_id: JobId, *, tenant: TenantId) -> list[ScriptRunRow]:
        """The attempts of one job."""
        rows = self._fetch("script_runs_of_job", {"job_id": job_id, "tenant": tenant})
        return [ScriptRunRow(*row) for row in rows]

    def script_runs_of_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId, limit: int) -> list[ScriptRunRow]:
        """The last attempts that a schedule has started, the newest first."""
        params = {"tenant": tenant, "schedule_id": schedule_id, "limit": limit}
        return [ScriptRunRow(*row) for row in self._fetch("list_runs_of_schedule", params)]

    def script_usage(self, tenant: TenantId, *, since: Instant, job_id: JobId | None = None) -> ScriptUsage:
        """The usage of a tenant's scripts since an instant. Current runs count as runs; for a job, those that were
        claimed before it.
        """
        params = {"tenant": tenant, "since": since, "function": SCRIPT_FUNCTION, "job_id": job_id}
        [(ended, cpu_ms, running)] = self._fetch("script_usage", params)
        return ScriptUsage(int(ended) + int(running), int(cpu_ms))

    def prune_script_runs(self, *, before: Instant, limit: int) -> int:
        """Remove attempts that ended before an instant. Return how many."""
        return self._run("prune_script_runs", {"before": before, "limit": limit})

    def get_script_plan(self, tenant: TenantId) -> str | None:
        """The limits of a tenant as JSON text; None if it has none."""
        rows = self._fetch("get_script_plan", {"tenant": tenant})
        return rows[0][0] if rows else None

    def save_script_plan(self, tenant: TenantId, limits: str) -> None:
        """Replace the limits of a tenant."""
        self._run("save_script_plan", {"tenant": tenant, "limits": limits})

    def get_script_value(self, key: str, *, tenant: TenantId) -> str | None:
        """A value as JSON text; None if there is none."""
        rows = self._fetch("get_script_value", {"tenant": tenant, "key": key})
        return rows[0][0] if rows else None

    def put_script_value(self, key: str, value: str | None, *, tenant: TenantId, now: Instant) -> None:
        """Store a value, or remove it if it is None."""
        if value is None:
            self._run("delete_script_value", {"tenant": tenant, "key": key})
        else:
            self._run("put_script_value", {"tenant": tenant, "key": key, "value": value, "updated_at": now})
