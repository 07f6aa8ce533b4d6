-- insert_jobs: write scheduled calls with COPY: many rows in one round trip, as fast as PostgreSQL takes them.
copy jobs (id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, retry, on_complete,
           schedule_id, schedule, pool, queue, stage, priority, rank, size, limit_key, trace)
from stdin
