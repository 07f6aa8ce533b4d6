-- ready_jobs: up to :limit ready jobs of a tenant in a queue, by rank, after (:rank, :id), with their sizes and keys. Reads the
-- index jobs_ready.
select id, rank, size, limit_key
  from jobs {indexed by jobs_ready}
 where state = 'pending' and stage = 'ready' and queue = :queue and tenant = :tenant and rank >= :rank
   and (rank > :rank or id > :id)
 order by rank, id
 limit :limit
