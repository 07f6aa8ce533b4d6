"""The schema of a tenant."""

from evertick.api.schema import Schema
from evertick.base.ids import TenantId
from evertick.base.records.tenants import TenantLimits, TenantUsage


class TenantView(Schema):
    """What a tenant may use at most (None is no limit), and what it uses just now."""

    tenant: TenantId
    limits: TenantLimits
    usage: TenantUsage
