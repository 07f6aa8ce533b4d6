"""The schema of a pool."""

from evertick.api.schema import Moment, Schema
from evertick.base.ids import TenantId
from evertick.base.records.limits import PoolLimits, TenantLimits, TenantUsage


class PoolView(Schema):
    """A pool: its limits (None is no limit), and what it has to do.

    `limits_from` says where the limits come from: "code" as declared with `app.pool`, "changed" declared and changed at
    run time, "set" at run time alone, "" without limits.
    `running` counts jobs on all workers. `ready` counts those that are due and wait for a place, up to
    10,000 of each function; `oldest` is when the first of them was due, None if none waits. `held` says what of the
    pool's own limits keeps them from starting just now, such as "waits: pool 'mail' starts 60 a minute"; None if
    nothing does, or nothing waits. What limits a tenant or a key is said by the jobs themselves.
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
    """What a tenant may use at most (None is no limit), and what it uses just now."""

    tenant: TenantId
    limits: TenantLimits
    usage: TenantUsage
