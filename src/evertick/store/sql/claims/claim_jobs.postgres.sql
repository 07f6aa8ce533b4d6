-- claim_jobs: lease at most :limit pending jobs of :tenant that are due, earliest first.
-- As SQLite's, but rows that another worker is claiming just now are skipped, not waited for.
update jobs
   set state = 'in_progress', attempt = attempt + 1, worker_id = :worker_id
 where id = any (array(select id
                         from jobs
                        where kind = :kind and tenant = :tenant and state = 'pending' and blocked = 0
                          and crashes < 2 and due_at >= :due_from and due_at <= :now
                        order by due_at, id
                        limit :limit
                          for update skip locked))
returning id, tenant, kind, name, args, due_at, attempt, failures, crashes, key, retry, on_complete, schedule
