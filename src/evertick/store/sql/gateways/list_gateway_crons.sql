-- list_gateway_crons: the copies of the crons of a tenant's gateways by their next times, beyond a place.
-- An empty :status chooses all. An offline gateway may have run a cron whose next time is over.
select c.gateway_id, c.cron_id, c.item, c.removed_at, c.next_run_at
  from gateway_crons c
 where c.tenant = :tenant and (c.next_run_at, c.gateway_id, c.cron_id) > (:next_run_at, :gateway_id, :cron_id)
   and c.next_run_at < :until
   and (:status = '' or :status =
        case when c.removed_at is not null then 'removed'
             when exists (select 1 from gateways g
                           where g.id = c.gateway_id and (g.instance_id = '' or g.last_seen_at <= :offline_since))
             then 'offline'
             when c.enabled = 0 then 'disabled'
             when c.next_run_at < :due_before then 'overdue'
             else 'enabled' end)
 order by c.next_run_at, c.gateway_id, c.cron_id
 limit :limit
