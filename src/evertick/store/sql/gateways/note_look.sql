-- note_look: what a look at a gateway has found, unless a later look has begun.
update gateways
   set last_seen_at = :now, status = :status, warnings = :warnings, version = :version, digest = :digest,
       capabilities = :capabilities, commands = :commands, copied_digest = :digest, copied_at = :now, error = null
 where id = :id and looks = :looks
