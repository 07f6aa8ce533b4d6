-- add_attempt: keep an attempt that another one will follow. PostgreSQL does so within retry_jobs.
insert into attempts (job_id, attempt, worker_id, started_at, ended_at, outcome, error)
values (?, ?, ?, ?, ?, ?, ?)
