-- list_unfinished_of_all: as list_unfinished, of all functions. Finds the functions by one step of the index
-- jobs_by_name each, takes at most :limit jobs of each, and sorts those.
with recursive names (name) as (
    select (select name from jobs where tenant = :tenant order by name limit 1)
    union all
    select (select name from jobs where tenant = :tenant and name > names.name order by name limit 1)
      from names
     where names.name is not null
)
select j.id, j.tenant, j.kind, j.name, j.state, j.requested_at, j.due_at, j.created_at, j.started_at, null, j.attempt,
       j.failures, j.crashes, j.worker_id, j.parent_id, j.key, j.schedule_id, j.pool, j.priority, j.stop
  from names
 cross join jobs as j
    on j.id in (select id
                  from jobs
                 where tenant = :tenant and name = names.name and {id} {beyond} :beyond
                   and (:with_running = 1 or state <> 'in_progress' or kind <> 'action')
                   and (cast(:due_from as bigint) is null or due_at >= :due_from)
                   and (cast(:due_until as bigint) is null or due_at < :due_until)
                 order by {id} {order}
                 limit :limit)
 where names.name is not null
 order by j.id {order}
 limit :limit
