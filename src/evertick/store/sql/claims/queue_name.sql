-- queue_name: pool and function of a queue, from its first ready job. Reads the index jobs_ready.
select pool, name
  from jobs
 where state = 'pending' and stage = 'ready' and queue = :queue
 order by tenant, rank
 limit 1
