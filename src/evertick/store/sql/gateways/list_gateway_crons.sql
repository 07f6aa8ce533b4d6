-- list_gateway_crons: the copies of the crons of a tenant's gateways by their next times, beyond a place.
select gateway_id, cron_id, item, removed_at, next_run_at
  from gateway_crons
 where tenant = :tenant and (next_run_at, gateway_id, cron_id) > (:next_run_at, :gateway_id, :cron_id)
 order by next_run_at, gateway_id, cron_id
 limit :limit
