-- finish_job: end one attempt, or put the job back to pending, if (worker, attempt) still holds it. One that was asked
-- to stop ends only as canceled.
-- SQLite's only: run once a row with values by position, which its driver binds twice as fast as by name.
update jobs
   set state = ?1, completed_at = ?2, due_at = ?3, failures = ?4, crashes = ?5,
       result = ?6, error = ?7, logs = ?8, worker_id = null,
       rank = ?3 - priority * 60000, stage = case when ?5 >= 2 then 'suspect' else 'waiting' end
 where id = ?9 and state = 'in_progress' and worker_id = ?10 and attempt = ?11
   and (stop = 0 or kind = 'mutation' or ?1 = 'canceled')
