"""Scripts over SQL."""

import json
from collections.abc import Sequence
from typing import Final

from evertick.base.ids import JobId, ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.jobs import SCRIPT_FUNCTION
from evertick.base.records.scripts import ScriptRow, ScriptRunRow, ScriptUsage, ScriptVersionRow
from evertick.store.contract.scripts import BEGINNING
from evertick.store.transaction.driver import Driver

VERSION_MAX: Final = 2**53


class SqlScripts(Driver):
    """The contract `Scripts`."""

    def get_script(self, name: str, *, tenant: TenantId) -> ScriptRow | None:
        rows = self._fetch("get_script", {"tenant": tenant, "name": name})
        return ScriptRow(*rows[0]) if rows else None

    def list_scripts(self, tenant: TenantId, *, limit: int, after: str = "") -> list[ScriptRow]:
        rows = self._fetch("list_scripts", {"tenant": tenant, "after": after, "limit": limit})
        return [ScriptRow(*row) for row in rows]

    def unchanged_scripts(self, names: Sequence[str], *, tenant: TenantId) -> set[str]:
        params = {"tenant": tenant, "names": json.dumps(list(names))}
        return {name for (name,) in self._fetch("unchanged_scripts", params)}

    def count_scripts(self, tenant: TenantId) -> int:
        return int(self._fetch("count_scripts", {"tenant": tenant})[0][0])

    def count_script_values(self, tenant: TenantId) -> int:
        return int(self._fetch("count_script_values", {"tenant": tenant})[0][0])

    def save_script(self, script: ScriptRow) -> None:
        self._run("save_script", script._asdict())

    def delete_script(self, name: str, *, tenant: TenantId) -> None:
        self._run("delete_script", {"tenant": tenant, "name": name})
        self._run("delete_script_versions", {"tenant": tenant, "script": name})

    def add_script_version(self, version: ScriptVersionRow) -> None:
        self._run("add_script_version", version._asdict())

    def get_script_version(self, script: str, version: int, *, tenant: TenantId) -> ScriptVersionRow | None:
        rows = self._fetch("get_script_version", {"tenant": tenant, "script": script, "version": version})
        return ScriptVersionRow(*rows[0]) if rows else None

    def list_script_versions(
        self, script: str, *, tenant: TenantId, limit: int, before: int | None = None
    ) -> list[ScriptVersionRow]:
        params = {"tenant": tenant, "script": script, "before": before or VERSION_MAX, "limit": limit}
        return [ScriptVersionRow(*row) for row in self._fetch("list_script_versions", params)]

    def add_script_run(self, run: ScriptRunRow) -> None:
        self._run("add_script_run", run._asdict())

    def list_script_runs(
        self, tenant: TenantId, *, script: str | None = None, limit: int, before: Instant, since: Instant = BEGINNING
    ) -> list[ScriptRunRow]:
        params = {"tenant": tenant, "before": before, "limit": limit}
        if script is None:
            rows = self._fetch("list_script_runs", params)
        else:
            rows = self._fetch("list_runs_of_script", {**params, "script": script, "since": since})
        return [ScriptRunRow(*row) for row in rows]

    def count_script_runs(self, tenant: TenantId, *, script: str, since: Instant) -> int:
        return int(self._fetch("count_runs_of_script", {"tenant": tenant, "script": script, "since": since})[0][0])

    def script_runs_of_job(self, job_id: JobId, *, tenant: TenantId) -> list[ScriptRunRow]:
        rows = self._fetch("script_runs_of_job", {"job_id": job_id, "tenant": tenant})
        return [ScriptRunRow(*row) for row in rows]

    def script_runs_of_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId, limit: int) -> list[ScriptRunRow]:
        params = {"tenant": tenant, "schedule_id": schedule_id, "limit": limit}
        return [ScriptRunRow(*row) for row in self._fetch("list_runs_of_schedule", params)]

    def script_usage(self, tenant: TenantId, *, since: Instant, job_id: JobId | None = None) -> ScriptUsage:
        params = {"tenant": tenant, "since": since, "function": SCRIPT_FUNCTION, "job_id": job_id}
        [(ended, cpu_ms, running)] = self._fetch("script_usage", params)
        return ScriptUsage(int(ended) + int(running), int(cpu_ms))

    def prune_script_runs(self, *, before: Instant, limit: int) -> int:
        return self._run("prune_script_runs", {"before": before, "limit": limit})

    def get_script_plan(self, tenant: TenantId) -> str | None:
        rows = self._fetch("get_script_plan", {"tenant": tenant})
        return rows[0][0] if rows else None

    def save_script_plan(self, tenant: TenantId, limits: str) -> None:
        self._run("save_script_plan", {"tenant": tenant, "limits": limits})

    def get_script_value(self, key: str, *, tenant: TenantId) -> str | None:
        rows = self._fetch("get_script_value", {"tenant": tenant, "key": key})
        return rows[0][0] if rows else None

    def put_script_value(self, key: str, value: str | None, *, tenant: TenantId, now: Instant) -> None:
        if value is None:
            self._run("delete_script_value", {"tenant": tenant, "key": key})
        else:
            self._run("put_script_value", {"tenant": tenant, "key": key, "value": value, "updated_at": now})
