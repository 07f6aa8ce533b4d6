-- suspects: the earliest pending jobs that two or more of their workers did not survive. Reads the index jobs_suspect.
select id, tenant, queue, due_at, pool, name, limit_key
  from jobs
 where state = 'pending' and stage = 'suspect'
 order by due_at, id
 limit :limit
