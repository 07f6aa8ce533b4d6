-- get_jobs: whole jobs of a tenant by their ids, unfinished and finished. :ids is a JSON list. In no order.
-- `tenant || ''` keeps databases from an index that begins with the tenant.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, null, attempt, failures, crashes,
       worker_id, parent_id, key, schedule_id, pool, priority, stop, null,
       case args when '' then coalesce((select bodies.args from bodies where bodies.id = jobs.id), '') else args end,
       retry, on_complete, schedule, null, error, limit_key
  from jobs
 where id in {list :ids} and (tenant || '') = :tenant
union all
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt, failures,
       crashes, null, parent_id, key, schedule_id, pool, priority, stop, retried_as,
       case args when '' then coalesce((select bodies.args from bodies where bodies.id = history.id), '') else args end,
       retry, on_complete, schedule, result, error, limit_key
  from history
 where id in {list :ids} and (tenant || '') = :tenant
