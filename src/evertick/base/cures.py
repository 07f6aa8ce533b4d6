"""Cures: the lines for a terminal in what `explain` and `doctor` suggest, with the tenant that they are about."""

from typing import Final

from evertick.base.escaping import shell_word
from evertick.base.ids import DEFAULT_TENANT, TenantId

THEN: Final = "; then "
"""Between the commands of a cure of several."""
WORKER: Final = "evertick worker"
"""The cure where no worker runs; workers serve all tenants."""


def tenant_option(tenant: TenantId) -> str:
    """What a command needs to find this tenant's jobs and schedules."""
    return "" if tenant == DEFAULT_TENANT else f" --tenant {shell_word(tenant)}"


def commands_of(fix: str, option: str) -> list[str]:
    """The commands of a cure, each with `option` at its end if it takes one."""
    return [part if part.endswith(WORKER) else f"{part}{option}" for part in fix.split(THEN)]
