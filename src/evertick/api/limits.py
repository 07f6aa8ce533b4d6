"""The schema of a pool."""

from evertick.api.schema import Moment, Schema
from evertick.base.ids import TenantId
from evertick.base.records.limits import PoolLimits, TenantLimits, TenantUsage


class PoolView(Schema):
    """A pool, its limits and its load.

    A limit that is None does not apply. `limits_from` says where the limits come from: `code` (declared with
    `app.pool`), `changed` (declared, and changed at run time), `set` (only set at run time), or an empty string if
    there are no limits.

    `running` is the number of running jobs on all workers. `ready` is the number of due jobs that wait for capacity,
    counted up to 10,000 for each function. `oldest` is when the first of them was due, None if none waits. `held` says
    which limit of the pool keeps them from starting, such as "waits: pool 'mail' starts 60 a minute". It is None if no
    limit of the pool does, or if no job waits. Limits of tenants and keys are reported by `JobView.held` instead.
    """

    pool: str
    limits: PoolLimits
    limits_from: str
    running: int
    ready: int
    oldest: Moment | None
    held: str | None


# -- The schema of a tenant.


class TenantView(Schema):
    """The limits of a tenant and its current usage. A limit that is None does not apply."""

    tenant: TenantId
    limits: TenantLimits
    usage: TenantUsage
