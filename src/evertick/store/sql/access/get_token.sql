-- get_token: a token by its id.
select id, tenant, name, scope, digest, created_at, created_by, expires_at, revoked_at, last_used_at
  from access_tokens
 where id = :id
