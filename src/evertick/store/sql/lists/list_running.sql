-- list_running: as list_finished, of actions that run. Reads the index jobs_running, which is short, and sorts.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, null, attempt, failures, crashes,
       worker_id, parent_id, key, schedule_id, pool, priority, stop
  from jobs
 where state = 'in_progress' and worker_id > '' and kind = 'action' and tenant = :tenant and {id} {beyond} :beyond
   and (cast(:name as text) is null or name = :name)
   and (cast(:schedule_id as text) is null or schedule_id = :schedule_id)
   and (cast(:parent_id as text) is null or parent_id = :parent_id)
   and (cast(:due_from as bigint) is null or due_at >= :due_from)
   and (cast(:due_until as bigint) is null or due_at < :due_until)
 order by {id} {order}
 limit :limit
