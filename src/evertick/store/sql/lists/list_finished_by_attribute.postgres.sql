-- list_finished_by_attribute: as list_finished, of the runs with an attribute: at most LOOK_MAX of them lie up to :horizon.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt, failures,
       crashes, null, parent_id, key, schedule_id, pool, priority, stop, retried_as
  from history
 where id = any (array{found}) and (tenant || '') = :tenant
   and state = :state
   and (:unretried = 0 or retried_as is null)
{narrowed}
{attributed}
 order by id {order}
 limit :limit
