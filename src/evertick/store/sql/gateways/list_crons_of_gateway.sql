-- list_crons_of_gateway: the copies of the crons of one gateway.
select gateway_id, cron_id, item, removed_at, next_run_at
  from gateway_crons
 where gateway_id = :gateway_id
 order by cron_id
