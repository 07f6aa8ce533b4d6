-- note_sync: what a sync with a gateway has found, unless a later one has begun.
update gateways
   set last_seen_at = :now, status = :status, warnings = :warnings, version = :version, digest = :digest,
       capabilities = :capabilities, commands = :commands, copied_digest = :digest, copied_at = :now, error = null
 where id = :id and syncs = :syncs
