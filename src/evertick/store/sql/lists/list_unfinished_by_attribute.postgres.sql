-- list_unfinished_by_attribute: as list_unfinished, of the runs with an attribute: at most LOOK_MAX of them lie up to :horizon.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, cast(null as bigint), attempt,
       failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, cast(null as text)
  from jobs
 where id = any (array{found}) and (tenant || '') = :tenant
   and state in ('pending', 'in_progress') and (:with_running = 1 or state <> 'in_progress' or kind <> 'action')
{open}
{narrowed}
{attributed}
 order by id {order}
 limit :limit
