-- note_removed_crons: crons that a look has not found any more have no next time.
update gateway_crons
   set removed_at = :now, next_run_at = :never
 where gateway_id = :gateway_id and look < :look and removed_at is null
