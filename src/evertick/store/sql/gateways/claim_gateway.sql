-- claim_gateway: sync one gateway now.
update gateways
   set sync_at = :next, syncs = syncs + 1
 where id = :id
returning id, tenant, name, secret, old_secret, old_until, generation, rotates, url, runtime, version, instance_id, former_id,
       status, warnings, capabilities, commands, registered_at, last_seen_at, digest, copied_digest, copied_at,
       error, sync_at, syncs
