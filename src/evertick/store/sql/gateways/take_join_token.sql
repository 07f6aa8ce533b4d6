-- take_join_token: a gateway registers.
delete from gateway_join_tokens
 where hash = :hash
returning tenant, name, expires_at
