-- list_jobs_newest: as list_jobs, newest first, before :before.
select id, tenant, kind, name, args, state, requested_at, due_at, created_at, completed_at,
       attempt, failures, crashes, worker_id, parent_id, key, retry, on_complete, result, error, logs, schedule, stop,
       pool, priority
  from jobs
 where tenant = :tenant and id < :before
   and (cast(:states as text) is null
        or cast(:states as text) like '%,' || case when kind = 'mutation' and state = 'in_progress'
                                                   then 'pending' else state end || ',%')
   and (cast(:name as text) is null or name = :name)
   and (cast(:due_from as bigint) is null or due_at >= :due_from)
   and (cast(:due_until as bigint) is null or due_at < :due_until)
 order by id desc
 limit :limit
