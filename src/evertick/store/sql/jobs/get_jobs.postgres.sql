-- get_jobs: whole jobs of a tenant by their ids, unfinished and finished. :ids is a JSON list. In no order.
-- PostgreSQL names the reader of JSON otherwise, and wants to know the types of empty columns. `is not distinct from`
-- keeps it from an index that begins with the tenant.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, null::bigint, attempt, failures, crashes,
       worker_id, parent_id, key, schedule_id, pool, priority, stop,
       case args when '' then (select bodies.args from bodies where bodies.id = jobs.id) else args end,
       retry, on_complete, schedule, null::text, error
  from jobs
 where id = any (array(select json_array_elements_text(:ids::json))) and tenant is not distinct from :tenant
union all
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt, failures,
       crashes, null, parent_id, key, schedule_id, pool, priority, stop,
       case args when '' then (select bodies.args from bodies where bodies.id = history.id) else args end,
       retry, on_complete, schedule, result, error
  from history
 where id = any (array(select json_array_elements_text(:ids::json))) and tenant is not distinct from :tenant
