-- add_logs: keep lines of attempts, in one round trip. A line that is kept already stays as it is.
insert into logs (job_id, attempt, number, at, level, text, is_cut, tenant, name, stored_at)
select job_id, attempt, number, at, level, text, is_cut, tenant, name, stored_at
  from json_to_recordset(:rows::json)
       as r (job_id text, attempt integer, number integer, at bigint, level text, text text, is_cut smallint,
             tenant text, name text, stored_at bigint)
on conflict do nothing
