-- claim_suspect: lease the suspect :id, if it is pending still.
-- claim_jobs passes it by: it must not be held together with anything else.
update jobs
   set state = 'in_progress', kind = :kind, attempt = attempt + 1, worker_id = :worker_id,
       started_at = :now
 where id = :id and state = 'pending' and stage = 'suspect' and due_at <= :now
returning id, tenant, kind, name,
          case args when '' then coalesce((select bodies.args from bodies where bodies.id = jobs.id), '') else args end,
          due_at, attempt, failures, crashes, key, retry, on_complete, schedule, queue, rank, trace
