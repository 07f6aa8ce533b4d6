-- lock_claim: is the job held under (worker, attempt)? Locks the row, so it waits for a COMMIT still under way: a plain
-- read could miss one whose reply was lost. First locks and then compares, or it would not wait for a claim or for
-- another worker's retry, whose old row does not match yet.
with locked as materialized (
    select state, worker_id, attempt
      from jobs
     where id = :id
       for update
)
select state
  from locked
 where state = 'in_progress' and worker_id = :worker_id and attempt = :attempt
