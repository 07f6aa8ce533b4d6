-- claim_gateway: look at one gateway now.
update gateways
   set look_at = :next, looks = looks + 1
 where id = :id
returning id, tenant, name, secret, old_secret, old_until, generation, rotates, url, runtime, version, instance_id, former_id,
       status, warnings, capabilities, commands, registered_at, last_seen_at, digest, copied_digest, copied_at,
       error, look_at, looks
