-- finish_job: end one attempt, or put the job back to pending, if (worker, attempt) still holds it. One that was asked
-- to stop ends only as canceled.
-- SQLite's only: run once a row with values by position, which its driver binds twice as fast as by name.
update jobs
   set state = ?, completed_at = ?, due_at = ?, failures = ?, crashes = ?,
       result = ?, error = ?, logs = ?, worker_id = null
 where id = ? and state = 'in_progress' and worker_id = ? and attempt = ? and (stop = 0 or kind = 'mutation' or ? = 'canceled')
