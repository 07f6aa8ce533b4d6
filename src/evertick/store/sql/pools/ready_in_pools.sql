-- ready_in_pools: of each queue how many jobs are ready, or held for their keys, at most :limit of each, and when the first of
-- those that were counted was due: a JSON list [pool, jobs, moment]. All jobs of a queue are of one pool. One step of the
-- index jobs_ready for each queue, and of jobs_by_limit_key for each with held jobs, and one for each job that is counted.
with recursive {queues}
select cast((select {json list}(max(pool), count(*), min(due_at))
               from (select pool, due_at
                       from jobs
                      where state = 'pending' and stage = 'ready' and queue = ready.due
                      order by tenant, rank
                      limit :limit) as counted) as text)
  from ready
 where due is not null
union all
select cast((select {json list}(max(pool), count(*), min(due_at))
               from (select pool, due_at
                       from jobs
                      where state = 'pending' and stage = 'held' and limit_key is not null and queue = held.due
                      order by tenant, limit_key, rank
                      limit :limit) as counted) as text)
  from held
 where due is not null
