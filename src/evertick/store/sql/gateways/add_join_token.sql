-- add_join_token: with which a gateway may register once.
insert into gateway_join_tokens (hash, tenant, name, expires_at)
values (:hash, :tenant, :name, :expires_at)
