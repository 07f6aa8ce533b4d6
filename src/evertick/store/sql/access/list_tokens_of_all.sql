-- list_tokens_of_all: the tokens of all tenants, the oldest first.
select id, tenant, name, scope, digest, created_at, created_by, expires_at, revoked_at, last_used_at
  from access_tokens
 where tenant is null and id > :after
 order by id
 limit :limit
