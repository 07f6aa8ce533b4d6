-- claim_ids: lease the jobs in the JSON list :ids. A claimed job belongs to (worker, attempt) for as long as the worker's
-- lease holds; every later write repeats that pair. SQLite's half of claim_jobs: ready_ids has found them.
update jobs
   set state = 'in_progress', kind = :kind, attempt = attempt + 1, worker_id = :worker_id,
       started_at = :now
 where id in (select value from json_each(:ids))
returning id, tenant, kind, name,
          case args when '' then coalesce((select bodies.args from bodies where bodies.id = jobs.id), '') else args end,
          due_at, attempt, failures, crashes, key, retry, on_complete, schedule, queue, rank, trace
