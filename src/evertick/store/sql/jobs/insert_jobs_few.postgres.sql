-- insert_jobs_few: as insert_jobs, for a few rows: the server is asked once, for their large arguments and counts too.
{with_rows}
insert into jobs (id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, retry,
                  on_complete, schedule_id, schedule, pool, queue, stage, priority, rank, size, limit_key, trace)
select id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, retry, on_complete,
       schedule_id, schedule, pool, queue, stage, priority, rank, size, limit_key, trace
  from r
