-- promote_jobs: make up to :limit jobs ready whose time has come, the earliest first. Reads the index jobs_waiting.
-- PostgreSQL's own: rows that another worker is promoting are skipped.
update jobs
   set stage = 'ready'
 where id = any (array(select id
                         from jobs
                        where state = 'pending' and stage = 'waiting' and due_at <= :now
                        order by due_at, id
                        limit :limit
                          for update skip locked))
