-- lock_claim: is the job still held under (worker, attempt)? Locks the row, so it waits for a COMMIT still under way:
-- a plain read could miss one whose reply was lost.
select state
  from jobs
 where id = :id and state = 'in_progress' and worker_id = :worker_id and attempt = :attempt
   for update
