-- list_jobs: a tenant's jobs in the order they were created, after :after, at most :limit.
-- A filter that is null does not narrow. :states is a comma-separated list with commas around it, of
-- states as they are shown: a claimed mutation still counts as pending.
select id, tenant, kind, name, args, state, requested_at, due_at, created_at, completed_at,
       attempt, failures, crashes, worker_id, parent_id, key, retry, on_complete, result, error, logs, schedule, stop,
       pool, priority
  from jobs
 where tenant = :tenant and id > :after
   and (cast(:states as text) is null
        or cast(:states as text) like '%,' || case when kind = 'mutation' and state = 'in_progress'
                                                   then 'pending' else state end || ',%')
   and (cast(:name as text) is null or name = :name)
   and (cast(:due_from as bigint) is null or due_at >= :due_from)
   and (cast(:due_until as bigint) is null or due_at < :due_until)
 order by id
 limit :limit
