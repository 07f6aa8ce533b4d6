-- wake_parked: make those parked runs of :rows (a JSON array of objects) due that were sent something after what they had
-- seen.
update jobs
   set due_at = :now, rank = :now - priority * 60000, stage = case stage when 'waiting' then 'ready' else stage end
  from json_each(:rows) as e
 where jobs.id = e.value ->> 'run_id' and jobs.state = 'pending' and jobs.due_at > :now
   and exists (select 1 from workflow_inbox as message indexed by workflow_inbox_waiting
                where message.run_id = e.value ->> 'run_id' and message.id > e.value ->> 'seen'
                  and message.taken_at is null)
