-- lock_claim: is the job still held under (worker, attempt)? SQLite has one writer, so reading is locking.
select state
  from jobs
 where id = :id and state = 'in_progress' and worker_id = :worker_id and attempt = :attempt
