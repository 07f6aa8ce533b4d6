-- note_removed_cron: a cron that is not at its gateway any more has no next time.
update gateway_crons
   set removed_at = :now, next_run_at = :never
 where gateway_id = :gateway_id and cron_id = :cron_id
