-- drop_tenant_limits: the tenant may use what it likes.
delete from tenant_limits
 where tenant = :tenant
