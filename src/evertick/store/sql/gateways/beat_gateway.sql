-- beat_gateway: a gateway has said how it is. If its crons are not those of the copy, it is synced now.
update gateways
   set last_seen_at = :now, status = :status, warnings = :warnings, version = :version, digest = :digest,
       sync_at = case when copied_digest = :digest and error is null then sync_at else :now end
 where id = :id
returning rotates, case when copied_digest = :digest and error is null then 0 else 1 end
