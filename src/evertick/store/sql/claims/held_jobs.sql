-- held_jobs: what a worker holds, at most :limit.
select id, tenant, kind, name, args, due_at, attempt, failures, crashes, key, retry, on_complete, schedule, queue, rank
  from jobs
 where worker_id = :worker_id and state = 'in_progress'
 order by id
 limit :limit
