-- ready_in_queue: when each of the first ready jobs of a queue was due, at most :limit. Reads them by the index jobs_ready.
select due_at
  from jobs
 where state = 'pending' and stage = 'ready' and queue = :queue
 order by tenant, rank
 limit :limit
