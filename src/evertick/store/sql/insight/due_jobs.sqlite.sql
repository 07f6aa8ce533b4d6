-- due_jobs: a tenant's due jobs by function and pool: how many, since when, and how many are late. Of those that are ready or
-- held back, the first :limit; of those that are not made ready yet and of suspects, those among the first :limit of all
-- tenants. Reads the indexes jobs_ready, jobs_by_limit_key, jobs_waiting and jobs_suspect.
with recursive {queues}
select name, pool, count(*), min(due_at), sum(case when due_at < :late_at then 1 else 0 end)
  from (select * from (select j.name, j.pool, j.due_at
                  from ready
                  join jobs as j indexed by jobs_ready
                    on j.state = 'pending' and j.stage = 'ready'
                   and j.queue = ready.due and j.tenant = :tenant
                 limit :limit)
        union all
        select * from (select j.name, j.pool, j.due_at
                  from held
                  join jobs as j indexed by jobs_by_limit_key
                    on j.state = 'pending' and j.stage = 'held' and j.limit_key is not null
                   and j.queue = held.due and j.tenant = :tenant
                 limit :limit)
        union all
        select name, pool, due_at from {soonest waiting :now :limit: name, pool, due_at} as of_waiting where tenant = :tenant
        union all
        select name, pool, due_at from {soonest suspect :now :limit: name, pool, due_at} as of_suspect where tenant = :tenant) as due
 group by name, pool
