-- cancel_jobs: end unfinished jobs in `history`; delete_finished follows. Finished ones stay as they are, and actions that
-- run are for ask_to_stop. :ids is a JSON list.
-- `tenant || ''` keeps databases from an index that begins with the tenant.
insert into history (id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt,
                     failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, schedule, args, error,
                     retry, on_complete, limit_key)
select id, tenant, kind, name, 'canceled', requested_at, due_at, created_at,
       case state when 'in_progress' then started_at end, :now, attempt,
       failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, schedule, args, error, retry,
       on_complete, limit_key
  from jobs
 where id in {list :ids} and (tenant || '') = :tenant and (state = 'pending' or kind <> 'action')
returning id, state, on_complete, schedule, name, (select trace from jobs where jobs.id = history.id)
