-- list_every_token: the tokens of each tenant and of all, the oldest first.
select id, tenant, name, scope, digest, created_at, created_by, expires_at, revoked_at, last_used_at
  from access_tokens
 where id > :after
 order by id
 limit :limit
