-- name: add_audit
-- A change in the audit log.
insert into audit_log (id, tenant, at, actor, action, target, request, before, after)
values (:id, :tenant, :at, :actor, :action, :target, :request, :before, :after)

-- name: add_token
-- A token of the HTTP API.
insert into access_tokens (id, tenant, name, scope, digest, created_at, created_by, expires_at, revoked_at, last_used_at)
values (:id, :tenant, :name, :scope, :digest, :created_at, :created_by, :expires_at, null, null)

-- name: get_token
-- A token by its id.
select id, tenant, name, scope, digest, created_at, created_by, expires_at, revoked_at, last_used_at
  from access_tokens
 where id = :id

-- name: list_audit
-- The changes, newest first.
select id, tenant, at, actor, action, target, request, before, after
  from audit_log
 where id < :before
 order by id desc
 limit :limit

-- name: list_every_token
-- The tokens of each tenant and of all, the oldest first.
select id, tenant, name, scope, digest, created_at, created_by, expires_at, revoked_at, last_used_at
  from access_tokens
 where id > :after
 order by id
 limit :limit

-- name: list_tenant_audit
-- The changes of a tenant, newest first.
select id, tenant, at, actor, action, target, request, before, after
  from audit_log
 where tenant = :tenant and id < :before
 order by id desc
 limit :limit

-- name: list_tokens
-- The tokens of a tenant, the oldest first.
select id, tenant, name, scope, digest, created_at, created_by, expires_at, revoked_at, last_used_at
  from access_tokens
 where tenant = :tenant and id > :after
 order by id
 limit :limit

-- name: prune_audit
-- Remove at most :limit lines whose ids are below :before, which begin with the time.
delete from audit_log
 where id in (select id from audit_log where id < :before order by id limit :limit)

-- name: revoke_token
-- End a token that has not been revoked.
update access_tokens
   set revoked_at = :now
 where id = :id and revoked_at is null

-- name: token_of_all_tenants
-- A token of all tenants, revoked or not.
select id
  from access_tokens
 where tenant is null
 limit 1

-- name: use_token
-- Note when a token was used last.
update access_tokens
   set last_used_at = :now
 where id = :id
