-- insert_canceled: write jobs that are canceled from their birth, in one round trip.
insert into history (id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, schedule_id,
                     schedule, completed_at, pool, priority, retry, on_complete, limit_key, attempt, failures, crashes)
select id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, schedule_id, schedule,
       completed_at, pool, priority, retry, on_complete, limit_key, 0, 0, 0
  from json_to_recordset(:rows::json)
       as r (id text, tenant text, kind text, name text, args text, state text, requested_at bigint, due_at bigint,
             created_at bigint, parent_id text, key text, schedule_id text, schedule text, completed_at bigint,
             pool text, priority smallint, retry text, on_complete text, limit_key text)
