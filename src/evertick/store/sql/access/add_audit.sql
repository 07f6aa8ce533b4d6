-- add_audit: what somebody has changed.
insert into audit_log (id, tenant, at, actor, action, target, request, before, after)
values (:id, :tenant, :at, :actor, :action, :target, :request, :before, :after)
