-- ready_in_queue: when each of the first jobs of a queue that are ready, or held for their keys, was due, at most :limit.
-- Reads them by the indexes jobs_ready and jobs_by_limit_key.
select due_at
  from (select due_at
          from jobs
         where state = 'pending' and stage = 'ready' and queue = :queue
         order by tenant, rank
         limit :limit) as ready
union all
select due_at
  from (select due_at
          from jobs
         where state = 'pending' and stage = 'held' and limit_key is not null and queue = :queue
         order by tenant, limit_key, rank
         limit :limit) as held
 limit :limit
