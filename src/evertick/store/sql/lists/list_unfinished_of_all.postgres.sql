-- list_unfinished_of_all: as SQLite's; a lateral join takes the jobs of each function.
select j.id, j.tenant, j.kind, j.name, j.state, j.requested_at, j.due_at, j.created_at, j.started_at,
       cast(null as bigint), j.attempt, j.failures, j.crashes, j.worker_id, j.parent_id, j.key, j.schedule_id,
       j.pool, j.priority, j.stop, cast(null as text)
  from json_array_elements_text(:names::json) as names (each)
 cross join lateral (select *
                       from jobs
                      where tenant = :tenant and name = names.each and {id} {beyond} :beyond and {id} {within} :horizon
                        and (:with_running = 1 or state <> 'in_progress' or kind <> 'action')
                        and (cast(:queues as text) is null
                             or state = 'pending' and position(' ' || queue || ' ' in :queues) > 0)
{open}
{narrowed}
                      order by {id} {order}
                      limit :limit) as j
 order by j.id {order}
 limit :limit
