-- gateway_by_secret: the gateway that has a secret now, or had it before and may still use it.
select id, tenant, name, secret, old_secret, old_until, generation, rotates, url, runtime, version, instance_id, former_id,
       status, warnings, capabilities, commands, registered_at, last_seen_at, digest, copied_digest, copied_at,
       error, sync_at, syncs
  from gateways
 where secret = :secret or (old_secret = :secret and old_until > :now)
