-- list_running: as list_finished, of actions that run. Reads the index jobs_running, which is short, and sorts.
-- `tenant || ''` keeps PostgreSQL from the indexes of all a tenant's jobs.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, cast(null as bigint), attempt,
       failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, cast(null as text)
  from {running}
 where state = 'in_progress' and worker_id > '' and kind = 'action' and (tenant || '') = :tenant and {id} {beyond} :beyond
   and {id} {within} :horizon
{narrowed}
 order by {id} {order}
 limit :limit
