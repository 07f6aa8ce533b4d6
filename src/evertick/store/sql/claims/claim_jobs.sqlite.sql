-- claim_jobs: lease at most :limit pending jobs of :tenant that are due, earliest first.
-- :now is UTC milliseconds. Reads the index jobs_due. A claimed job belongs to (worker, attempt) for as long as the
-- worker's lease holds; every later write repeats that pair. Suspects are left to claim_suspect.
update jobs
   set state = 'in_progress', attempt = attempt + 1, worker_id = :worker_id
 where id in (select id
                from jobs
               where kind = :kind and tenant = :tenant and state = 'pending' and blocked = 0 and crashes < 2
                 and due_at >= :due_from and due_at <= :now
               order by due_at, id
               limit :limit)
returning id, tenant, kind, name, args, due_at, attempt, failures, crashes, key, retry, on_complete, schedule
