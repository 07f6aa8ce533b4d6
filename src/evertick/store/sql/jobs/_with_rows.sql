-- The rows :rows of new jobs as r; their large arguments and their counts are written beside them.
with r as materialized (
    select *
      from json_to_recordset(:rows::json)
           as r (id text, tenant text, kind text, name text, args text, state text, requested_at bigint, due_at bigint,
                 created_at bigint, parent_id text, key text, retry text, on_complete text, schedule_id text,
                 schedule text, pool text, queue bigint, stage text, priority smallint, rank bigint, size integer,
                 limit_key text, trace text, body text)
), apart as (
    insert into bodies (id, args)
    select id, body from r where body is not null
), counted as (
    insert into job_count_changes (tenant, name, unfinished, success, failed, canceled)
    select tenant, name, count(*), 0, 0, 0 from r group by tenant, name
)
