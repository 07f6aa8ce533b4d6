-- finish_jobs: write how jobs ended to `history`, if (worker, attempt) still holds them; delete_finished follows. One that
-- was asked to stop ends only as canceled.
-- :rows is a JSON list: for each job its id, attempt, start, end and result, and unless it succeeded its state, failures,
-- crashes and error. SQLite's own: PostgreSQL also removes them in this statement, and returns them, which costs SQLite a
-- quarter more.
insert into history (id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt,
                     failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, schedule, args, result,
                     error, retry, on_complete, limit_key)
select jobs.id, tenant, kind, name, coalesce(json_extract(e.value, '$[5]'), 'success'), requested_at, due_at, created_at,
       coalesce(json_extract(e.value, '$[2]'), started_at), json_extract(e.value, '$[3]'), attempt,
       coalesce(json_extract(e.value, '$[6]'), failures), coalesce(json_extract(e.value, '$[7]'), crashes), worker_id,
       parent_id, key, schedule_id, pool, priority, stop, schedule, args, json_extract(e.value, '$[4]'),
       json_extract(e.value, '$[8]'), retry, on_complete, limit_key
  from (select value from json_each(:rows)) as e
 cross join jobs
    on jobs.id = json_extract(e.value, '$[0]')
 where state = 'in_progress' and worker_id = :worker_id and attempt = json_extract(e.value, '$[1]')
   and (stop = 0 or kind = 'mutation' or json_extract(e.value, '$[5]') = 'canceled')
