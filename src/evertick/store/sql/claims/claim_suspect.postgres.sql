-- claim_suspect: lease the earliest due suspect of :kind, whosever it is.
-- As SQLite's, but a row that another worker is claiming just now is skipped, not waited for.
update jobs
   set state = 'in_progress', attempt = attempt + 1, worker_id = :worker_id
 where id = any (array(select id
                         from jobs
                        where kind = :kind and state = 'pending' and blocked = 0 and crashes >= 2 and due_at <= :now
                        order by due_at, id
                        limit 1
                          for update skip locked))
returning id, tenant, kind, name, args, due_at, attempt, failures, crashes, key, retry, on_complete, schedule
