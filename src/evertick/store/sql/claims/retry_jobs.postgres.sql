-- retry_jobs: make jobs pending again whose attempt ended, if (worker, attempt) still holds them, and keep the attempt.
-- As finish_jobs, many in one statement.
with e as materialized (
    select *
      from json_to_recordset(:rows::json)
           as e (id text, attempt integer, started_at bigint, ended_at bigint, due_at bigint, failures integer,
                 crashes integer, outcome text, error text)
), ended as (
    update jobs
       set state = 'pending', due_at = e.due_at, failures = e.failures, crashes = e.crashes, error = e.error,
           worker_id = null, rank = e.due_at - jobs.priority * 60000,
           stage = case when jobs.stage = 'paused' then 'paused' when e.crashes >= 2 then 'suspect' else 'waiting' end
      from e
     where jobs.id = any (array(select id from e)) and jobs.id = e.id
       and (jobs.state, jobs.worker_id, jobs.attempt) is not distinct from ('in_progress', :worker_id, e.attempt)
       and (jobs.stop = 0 or jobs.kind = 'mutation')
    returning jobs.id, e.attempt, coalesce(e.started_at, jobs.started_at) as began_at, e.ended_at, e.outcome, e.error
)
insert into attempts (job_id, attempt, worker_id, started_at, ended_at, outcome, error)
select ended.id, ended.attempt, :worker_id, ended.began_at, ended.ended_at, ended.outcome, ended.error
  from ended
returning job_id
