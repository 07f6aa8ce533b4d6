-- drop_join_tokens: those that are too old, and those for a name that has another one now.
delete from gateway_join_tokens
 where expires_at <= :now or (tenant = :tenant and name = :name)
