"""Cures: the lines for a terminal in what `explain`, `doctor` and errors suggest, with the tenant they are about."""

from collections.abc import Iterable
from typing import Final

from evertick.base.errors import ScheduleNotFound
from evertick.base.escaping import shell_word
from evertick.base.ids import DEFAULT_TENANT, TenantId

THEN: Final = "; then "
"""Between the commands of a cure of several."""
DJANGO_SETTINGS: Final = "set DJANGO_SETTINGS_MODULE, for example DJANGO_SETTINGS_MODULE=shop.settings evertick ..."
"""The cure where Django has no settings."""
WORKER: Final = "evertick worker"
"""The cure where no worker runs; workers serve all tenants."""


def tenant_option(tenant: TenantId) -> str:
    """What a command needs to find this tenant's jobs and schedules."""
    return "" if tenant == DEFAULT_TENANT else f" --tenant {shell_word(tenant)}"


def commands_of(fix: str, option: str) -> list[str]:
    """The commands of a cure, each with `option` at its end if it takes one."""
    return [part if part.endswith(WORKER) else f"{part}{option}" for part in fix.split(THEN)]


def no_schedule(
    schedule_id: str, tenant: TenantId, ids: Iterable[str] = (), *, kind: str = "schedule"
) -> ScheduleNotFound:
    """The error for a schedule that a tenant does not have; `ids` are those among which it may have been meant."""
    from difflib import get_close_matches

    near = get_close_matches(schedule_id, ids, n=3, cutoff=0.6)
    meant = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    return ScheduleNotFound(
        f"no {kind} {schedule_id!r}; {meant}list them with `evertick {kind} list{tenant_option(tenant)}`"
    )
