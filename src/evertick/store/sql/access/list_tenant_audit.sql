-- list_tenant_audit: what was changed of a tenant, the newest first.
select id, tenant, at, actor, action, target, request, before, after
  from audit_log
 where tenant = :tenant and id < :before
 order by id desc
 limit :limit
