-- list_attempts: every attempt of a job, in no order. The last one stands in the job's own row.
-- A claimed mutation is pending for others: nothing of it has happened.
select attempt, worker_id, started_at, ended_at, outcome, error
  from attempts
 where job_id = :id
union all
select attempt, worker_id, started_at, completed_at, state, error
  from history
 where id = :id and worker_id is not null
union all
select attempt, worker_id, started_at, null, null, null
  from jobs
 where id = :id and state = 'in_progress' and kind = 'action'
