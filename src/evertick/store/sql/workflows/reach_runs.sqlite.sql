-- reach_runs: the unfinished runs of the JSON list :runs; those that wait are due now.
update jobs
   set due_at = case when state = 'pending' and due_at > :now then :now else due_at end,
       rank = case when state = 'pending' and due_at > :now then :now - priority * 60000 else rank end,
       stage = case when state = 'pending' and stage = 'waiting' and due_at > :now then 'ready' else stage end
 where id in (select value from json_each(:runs)) and kind = 'workflow'
   and state in ('pending', 'in_progress')
returning id
