-- ready_ids: up to :limit ready jobs of a tenant in a queue, by rank from :rank, with their sizes. Reads the index
-- jobs_ready alone. SQLite's half of claim_jobs: a join over all shares would visit each row twice.
select id, size
  from jobs indexed by jobs_ready
 where state = 'pending' and stage = 'ready' and queue = :queue and tenant = :tenant and rank >= :rank
 order by rank, id
 limit :limit
