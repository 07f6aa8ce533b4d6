-- add_logs: keep a line of an attempt. SQLite runs it once a row. A line that is kept already stays as it is.
insert into logs (job_id, attempt, number, at, level, text, is_cut, tenant, name, stored_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do nothing
