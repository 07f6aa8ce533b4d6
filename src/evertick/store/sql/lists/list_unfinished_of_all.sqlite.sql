-- list_unfinished_of_all: as list_unfinished, of the functions in the JSON list :names. Takes at most :limit jobs of each
-- by the index jobs_by_name, and sorts those. :queues are those to which the jobs belong, with a space around each.
select j.id, j.tenant, j.kind, j.name, j.state, j.requested_at, j.due_at, j.created_at, j.started_at,
       cast(null as bigint), j.attempt, j.failures, j.crashes, j.worker_id, j.parent_id, j.key, j.schedule_id,
       j.pool, j.priority, j.stop, cast(null as text)
  from json_each(:names) as names
 cross join jobs as j
    on j.id in (select id
                  from jobs
                 where tenant = :tenant and name = names.value and {id} {beyond} :beyond and {id} {within} :horizon
                   and (:with_running = 1 or state <> 'in_progress' or kind <> 'action')
                   and (:queues is null or state = 'pending' and instr(:queues, ' ' || queue || ' ') > 0)
{open}
{narrowed}
                 order by {id} {order}
                 limit :limit)
 order by j.id {order}
 limit :limit
