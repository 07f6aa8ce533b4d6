-- held_jobs: what a worker holds, at most :limit.
select id, tenant, kind, name,
       case args when '' then coalesce((select bodies.args from bodies where bodies.id = jobs.id), '') else args end,
       due_at, attempt, failures, crashes, key, retry, on_complete, schedule, queue, rank, trace
  from jobs
 where worker_id = :worker_id and state = 'in_progress'
 order by id
 limit :limit
