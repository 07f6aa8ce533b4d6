-- reach_runs: the unfinished runs of the JSON list :runs; those that wait are due now. PostgreSQL's own: it locks the
-- rows in the order of ids, also those that run: what parks such a run then waits for this transaction and sees its
-- messages.
with reached as materialized (
    select id
      from jobs
     where id = any (array(select json_array_elements_text(:runs::json))) and kind = 'workflow'
       and state in ('pending', 'in_progress')
     order by id
       for no key update
)
update jobs
   set due_at = case when state = 'pending' and due_at > :now then :now else due_at end,
       rank = case when state = 'pending' and due_at > :now then :now - priority * 60000 else rank end,
       stage = case when state = 'pending' and stage = 'waiting' and due_at > :now then 'ready' else stage end
 where id = any (array(select id from reached)) and state in ('pending', 'in_progress')
returning id
