-- put_gateway_cron: a cron as its gateway gave it.
insert into gateway_crons
       (tenant, gateway_id, cron_id, item, enabled, last_status, next_run_at, removed_at)
values (:tenant, :gateway_id, :cron_id, :item, :enabled, :last_status, :next_run_at, null)
    on conflict (gateway_id, cron_id) do update
   set item = excluded.item, enabled = excluded.enabled, last_status = excluded.last_status,
       next_run_at = excluded.next_run_at, removed_at = null
