-- insert_canceled: write a job that is canceled from its birth. SQLite runs it once a row.
insert into history (id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, schedule_id,
                     schedule, completed_at, pool, priority, retry, on_complete, limit_key, attempt, failures, crashes)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0)
