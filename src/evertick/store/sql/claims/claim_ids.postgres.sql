-- claim_ids: lease the jobs in the JSON list :ids, as claim_jobs does, those that are ready still: they were chosen for their
-- keys. PostgreSQL's own: rows that another transaction is changing are skipped, not waited for.
update jobs
   set state = 'in_progress', kind = :kind, attempt = attempt + 1, worker_id = :worker_id,
       started_at = :now
 where id = any (array(select id
                         from jobs
                        where id in {list :ids} and state = 'pending' and stage = 'ready'
                          for update skip locked))
returning id, tenant, kind, name,
          case args when '' then coalesce((select bodies.args from bodies where bodies.id = jobs.id), '') else args end,
          due_at, attempt, failures, crashes, key, retry, on_complete, schedule, queue, rank, trace
