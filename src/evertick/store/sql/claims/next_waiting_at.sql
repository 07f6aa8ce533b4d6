-- next_waiting_at: when the earliest of the jobs that wait for their time is due. Reads the index jobs_waiting.
select due_at
  from jobs
 where state = 'pending' and stage = 'waiting'
 order by due_at, id
 limit 1
