-- list_unfinished: as list_finished, of what is to be done. Reads an index of jobs that begins with what {by} compares.
-- A claimed mutation counts as pending; actions that run are left out unless :with_running is 1.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, cast(null as bigint), attempt,
       failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, cast(null as text)
  from jobs
 where tenant = :tenant {by} and state in ('pending', 'in_progress') and {id} {beyond} :beyond and {id} {within} :horizon
   and (:with_running = 1 or state <> 'in_progress' or kind <> 'action')
{open}
{narrowed}
 order by {id} {order}
 limit :limit
