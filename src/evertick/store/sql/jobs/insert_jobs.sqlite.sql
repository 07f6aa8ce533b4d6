-- insert_jobs: write one scheduled call. SQLite runs it once a row; PostgreSQL's twin takes all rows in one round trip.
insert into jobs (id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, retry,
                  on_complete, schedule_id, schedule, pool, queue, stage, priority, rank, size, limit_key, trace)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
