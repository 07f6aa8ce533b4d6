-- promote_jobs: make up to :limit jobs ready whose time has come, the earliest first. Reads the index jobs_waiting.
update jobs
   set stage = 'ready'
 where id in (select id
                from jobs
               where state = 'pending' and stage = 'waiting' and due_at <= :now
               order by due_at, id
               limit :limit)
