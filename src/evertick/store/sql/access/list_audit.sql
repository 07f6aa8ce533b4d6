-- list_audit: what was changed, the newest first.
select id, tenant, at, actor, action, target, request, before, after
  from audit_log
 where id < :before
 order by id desc
 limit :limit
