-- list_tokens: the tokens of a tenant, the oldest first.
select id, tenant, name, scope, digest, created_at, created_by, expires_at, revoked_at, last_used_at
  from access_tokens
 where tenant = :tenant and id > :after
 order by id
 limit :limit
