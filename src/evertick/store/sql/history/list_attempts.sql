-- list_attempts: every attempt of the jobs in the JSON list :jobs, in no order. The last one stands in the job's own row.
-- A claimed mutation is pending for others: nothing of it has happened. `state || ''` keeps databases from the index of
-- what runs, which they would read whole.
select job_id, attempt, worker_id, started_at, ended_at, outcome, error
  from attempts
 where job_id in {list :jobs}
union all
select id, attempt, worker_id, started_at, completed_at, state, error
  from history
 where id in {list :jobs} and worker_id is not null
union all
select id, attempt, worker_id, started_at, null, null, null
  from jobs
 where id in {list :jobs} and (state || '') = 'in_progress' and kind = 'action'
