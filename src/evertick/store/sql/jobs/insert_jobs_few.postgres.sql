-- insert_jobs_few: as insert_jobs, for a few rows: the server is asked once.
insert into jobs (id, tenant, kind, name, args, state, requested_at, due_at, created_at, completed_at,
                  parent_id, key, retry, on_complete, schedule,
                  pool, queue, stage, priority, rank, size)
select *
  from json_to_recordset(:rows::json)
       as r (id text, tenant text, kind text, name text, args text, state text, requested_at bigint, due_at bigint,
             created_at bigint, completed_at bigint, parent_id text, key text, retry text, on_complete text,
             schedule text, pool text, queue bigint, stage text, priority smallint, rank bigint, size integer)
