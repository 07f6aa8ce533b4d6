-- hold_jobs: take ready jobs, the JSON list :ids, out of the way of a claim: their keys are full.
update jobs
   set stage = 'held'
 where id in {list :ids} and state = 'pending' and stage = 'ready'
