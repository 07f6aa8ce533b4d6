-- get_job: one job of a tenant, whole.
select id, tenant, kind, name, args, state, requested_at, due_at, created_at, completed_at,
       attempt, failures, crashes, worker_id, parent_id, key, retry, on_complete, result, error, logs, schedule, stop,
       pool, priority
  from jobs
 where id = :id and tenant = :tenant
