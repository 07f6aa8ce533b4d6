-- report_runs: a run of a schedule ended. SQLite runs it once a row. A job reports once.
insert into run_reports (job_id, tenant, schedule_id, nominal_at, origin, request, ended_at, outcome, result, message)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do nothing
