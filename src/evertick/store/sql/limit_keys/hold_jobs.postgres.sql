-- hold_jobs: take ready jobs, the JSON list :ids, out of the way of a claim: their keys are full.
-- PostgreSQL's own: rows that another transaction is changing are skipped, not waited for.
update jobs
   set stage = 'held'
 where id = any (array(select id
                         from jobs
                        where id in {list :ids} and state = 'pending' and stage = 'ready'
                          for update skip locked))
