"""The contract for scripts of tenants, their versions, runs, limits and values."""

from collections.abc import Sequence
from typing import Final, Protocol

from evertick.base.ids import JobId, ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.scripts import ScriptRow, ScriptRunRow, ScriptUsage, ScriptVersionRow

BEGINNING: Final = Instant(0)


class Scripts(Protocol):
    """What a transaction can do with scripts."""

    def get_script(self, name: str, *, tenant: TenantId) -> ScriptRow | None:
        """One script, or None."""
        ...

    def list_scripts(self, tenant: TenantId, *, limit: int, after: str = "") -> list[ScriptRow]:
        """The scripts of a tenant, by name."""
        ...

    def unchanged_scripts(self, names: Sequence[str], *, tenant: TenantId) -> set[str]:
        """Which of these scripts have a draft that is the version which runs."""
        ...

    def count_scripts(self, tenant: TenantId) -> int:
        """How many scripts a tenant has."""
        ...

    def count_script_values(self, tenant: TenantId) -> int:
        """How many values the scripts of a tenant keep."""
        ...

    def save_script(self, script: ScriptRow) -> None:
        """Write a script, new or changed."""
        ...

    def delete_script(self, name: str, *, tenant: TenantId) -> None:
        """Remove a script with its versions. Its runs stay for their retention."""
        ...

    def add_script_version(self, version: ScriptVersionRow) -> None:
        """Write a new version."""
        ...

    def get_script_version(self, script: str, version: int, *, tenant: TenantId) -> ScriptVersionRow | None:
        """One version, or None."""
        ...

    def list_script_versions(
        self, script: str, *, tenant: TenantId, limit: int, before: int | None = None
    ) -> list[ScriptVersionRow]:
        """The versions of a script, the newest first, below the number `before`."""
        ...

    def add_script_run(self, run: ScriptRunRow) -> None:
        """Write what an attempt used."""
        ...

    def list_script_runs(
        self, tenant: TenantId, *, script: str | None = None, limit: int, before: Instant, since: Instant = BEGINNING
    ) -> list[ScriptRunRow]:
        """The attempts of a tenant, or of one of its scripts, that ended before a moment, the newest first.

        `since` is for one script: only what ended at this moment or later.
        """
        ...

    def count_script_runs(self, tenant: TenantId, *, script: str, since: Instant) -> int:
        """How many attempts of a script ended at a moment or later."""
        ...

    def script_runs_of_job(self, job_id: JobId, *, tenant: TenantId) -> list[ScriptRunRow]:
        """The attempts of one job."""
        ...

    def script_runs_of_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId, limit: int) -> list[ScriptRunRow]:
        """The last attempts that a schedule has started, the newest first."""
        ...

    def script_usage(self, tenant: TenantId, *, since: Instant, job_id: JobId | None = None) -> ScriptUsage:
        """What the scripts of a tenant have used since a moment. Runs that are under way count as runs, for a job
        those that were claimed before it.
        """
        ...

    def prune_script_runs(self, *, before: Instant, limit: int) -> int:
        """Remove attempts that ended before a moment; returns how many."""
        ...

    def get_script_plan(self, tenant: TenantId) -> str | None:
        """The limits of a tenant as JSON text, or None."""
        ...

    def save_script_plan(self, tenant: TenantId, limits: str) -> None:
        """Replace the limits of a tenant."""
        ...

    def get_script_value(self, key: str, *, tenant: TenantId) -> str | None:
        """A value as JSON text, or None."""
        ...

    def put_script_value(self, key: str, value: str | None, *, tenant: TenantId, now: Instant) -> None:
        """Keep a value, or remove it if it is None."""
        ...
