-- save_gateway: a new gateway, or what one is now.
insert into gateways
       (id, tenant, name, secret, old_secret, old_until, generation, rotates, url, runtime, version, instance_id, former_id,
        status, warnings, capabilities, commands, registered_at, last_seen_at, digest, copied_digest, copied_at,
        error, sync_at, syncs)
values (:id, :tenant, :name, :secret, :old_secret, :old_until, :generation, :rotates, :url, :runtime, :version,
        :instance_id, :former_id, :status, :warnings, :capabilities, :commands, :registered_at, :last_seen_at, :digest,
        :copied_digest, :copied_at, :error, :sync_at, :syncs)
    on conflict (id) do update
   set name = excluded.name, secret = excluded.secret, old_secret = excluded.old_secret,
       old_until = excluded.old_until, generation = excluded.generation, rotates = excluded.rotates,
       url = excluded.url, runtime = excluded.runtime, version = excluded.version,
       instance_id = excluded.instance_id, former_id = excluded.former_id, status = excluded.status, warnings = excluded.warnings,
       capabilities = excluded.capabilities, commands = excluded.commands, last_seen_at = excluded.last_seen_at,
       digest = excluded.digest, copied_digest = excluded.copied_digest, copied_at = excluded.copied_at,
       error = excluded.error, sync_at = excluded.sync_at, syncs = excluded.syncs
