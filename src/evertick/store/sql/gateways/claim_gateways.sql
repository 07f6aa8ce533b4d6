-- claim_gateways: gateways that are to be synced; no other process syncs them until the next time.
update gateways
   set sync_at = :next, syncs = syncs + 1
 where sync_at <= :now
   and id in (select id from gateways where sync_at <= :now order by sync_at limit :limit)
returning id, tenant, name, secret, old_secret, old_until, generation, rotates, url, runtime, version, instance_id, former_id,
       status, warnings, capabilities, commands, registered_at, last_seen_at, digest, copied_digest, copied_at,
       error, sync_at, syncs
