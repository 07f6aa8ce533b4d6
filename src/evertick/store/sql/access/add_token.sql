-- add_token: a token of the HTTP API.
insert into access_tokens (id, tenant, name, scope, digest, created_at, created_by, expires_at, revoked_at, last_used_at)
values (:id, :tenant, :name, :scope, :digest, :created_at, :created_by, :expires_at, null, null)
