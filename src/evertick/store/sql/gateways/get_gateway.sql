-- get_gateway: one gateway of a tenant.
select id, tenant, name, secret, old_secret, old_until, generation, rotates, url, runtime, version, instance_id, former_id,
       status, warnings, capabilities, commands, registered_at, last_seen_at, digest, copied_digest, copied_at,
       error, sync_at, syncs
  from gateways
 where tenant = :tenant and name = :name
