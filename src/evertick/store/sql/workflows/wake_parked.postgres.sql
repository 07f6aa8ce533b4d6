-- wake_parked: as SQLite's. PostgreSQL's own: it reads lists of objects by another function.
with e as materialized (
    select * from json_to_recordset(:rows::json) as e (run_id text, seen bigint)
)
update jobs
   set due_at = :now, rank = :now - jobs.priority * 60000,
       stage = case jobs.stage when 'waiting' then 'ready' else jobs.stage end
  from e
 where jobs.id = any (array(select run_id from e)) and jobs.id = e.run_id
   and jobs.state = 'pending' and jobs.due_at > :now
   and exists (select from workflow_inbox as message
                where message.run_id = e.run_id and message.id > e.seen and message.taken_at is null)
