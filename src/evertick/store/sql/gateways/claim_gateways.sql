-- claim_gateways: gateways that are to be looked at; nobody else looks at them until the next time.
update gateways
   set look_at = :next, looks = looks + 1
 where look_at <= :now
   and id in (select id from gateways where look_at <= :now order by look_at limit :limit)
returning id, tenant, name, secret, old_secret, old_until, generation, rotates, url, runtime, version, instance_id, former_id,
       status, warnings, capabilities, commands, registered_at, last_seen_at, digest, copied_digest, copied_at,
       error, look_at, looks
