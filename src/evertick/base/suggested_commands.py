"""Suggested commands: the fixes that `explain`, `doctor` and errors show, with the option for the tenant."""

from collections.abc import Iterable
from typing import Final

from evertick.base.errors import JobNotFound, ScheduleNotFound
from evertick.base.escaping import schedule_word, shell_word
from evertick.base.ids import DEFAULT_TENANT, JobId, TenantId

SEPARATOR: Final = "; then "
"""Separates the commands of a fix that has several."""
DJANGO_SETTINGS: Final = "set DJANGO_SETTINGS_MODULE, for example DJANGO_SETTINGS_MODULE=shop.settings evertick ..."
"""The fix if Django has no settings."""
WORKER: Final = "evertick worker"
"""The fix if no worker runs. Workers serve all tenants."""


def tenant_option(tenant: TenantId) -> str:
    """The option with which a command finds this tenant's jobs and schedules; empty for the default tenant."""
    return "" if tenant == DEFAULT_TENANT else f" --tenant {shell_word(tenant)}"


def commands_of(fix: str, option: str) -> list[str]:
    """The commands of a fix, each with `option` at its end if it takes one."""
    return [part if part.endswith(WORKER) else f"{part}{option}" for part in fix.split(SEPARATOR)]


def fix_of_unreadable(schedule_id: str, tenant: TenantId) -> str:
    """The fix for a schedule that this release cannot read."""
    named = f"{schedule_word(schedule_id)}{tenant_option(tenant)}"
    return (
        f"deploy the release or the time zone data that it needs, or replace it: evertick schedule update {named} "
        f"--replace --when TEXT --function NAME, or: evertick schedule delete {named}"
    )


def no_schedule(
    schedule_id: str, tenant: TenantId, ids: Iterable[str] = (), *, kind: str = "schedule"
) -> ScheduleNotFound:
    """The error for a schedule that a tenant does not have; `ids` are candidates for "did you mean"."""
    error = ScheduleNotFound(
        f"no {kind} {schedule_id!r}{in_tenant(tenant)}; {did_you_mean(schedule_id, ids)}"
        f"list them with `evertick {kind} list{tenant_option(tenant)}`"
    )
    error.wanted = schedule_id
    return error


def no_run(run_id: str, tenant: TenantId, keys: Iterable[str] = ()) -> JobNotFound:
    """The error for the id or key of a run that a tenant does not have; `keys` are candidates for "did you mean"."""
    error = JobNotFound(
        f"no run {run_id!r}{in_tenant(tenant)}; {did_you_mean(run_id, keys)}"
        f"list them with `evertick workflow list{tenant_option(tenant)}`"
    )
    error.wanted = run_id
    return error


def no_job(job_id: JobId, tenant: TenantId) -> JobNotFound:
    """The error for the id of a job that a tenant does not have."""
    error = JobNotFound(f"no job {job_id}{in_tenant(tenant)}: it never existed there, or its retention is over")
    error.wanted = job_id
    return error


def no_key(key: str, tenant: TenantId, keys: Iterable[str] = ()) -> JobNotFound:
    """The error for a key that no job of a tenant has; `keys` are candidates for "did you mean"."""
    error = JobNotFound(
        f"no job has the key {key!r}{in_tenant(tenant)}: none ever had it, or its retention is over; "
        f"{did_you_mean(key, keys)}"
        f"`evertick job list{tenant_option(tenant)}` shows jobs, which are named by id (job_ and 28 characters) or key"
    )
    error.wanted = key
    return error


def did_you_mean(wanted: str, names: Iterable[str]) -> str:
    """The question "did you mean ...? " with the names most similar to `wanted`; empty if none is similar."""
    from difflib import get_close_matches

    # A name that differs only in digits is another thing, not a typing mistake: pickup:P00099 and pickup:P99999.
    others = [name for name in dict.fromkeys(names) if _without_digits(name) != _without_digits(wanted)]
    near = get_close_matches(wanted, others, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(map(repr, near))}? " if near else ""


def _without_digits(name: str) -> str:
    return "".join(each for each in name if not each.isdigit())


def in_tenant(tenant: TenantId) -> str:
    """The tenant as a part of an error message; empty for the default tenant."""
    return "" if tenant == DEFAULT_TENANT else f" in the tenant {tenant}"
