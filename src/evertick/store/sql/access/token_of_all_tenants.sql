-- token_of_all_tenants: a token of all tenants, revoked or not.
select id
  from access_tokens
 where tenant is null
 limit 1
