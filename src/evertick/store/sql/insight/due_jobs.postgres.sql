-- due_jobs: as SQLite's; a lateral join makes PostgreSQL read each queue by itself.
with recursive {queues}
select name, pool, count(*), min(due_at), sum(case when due_at < :late_at then 1 else 0 end)
  from (select * from (select j.name, j.pool, j.due_at
                  from ready
                 cross join lateral (select name, pool, due_at
                                       from jobs
                                      where state = 'pending' and stage = 'ready'
                                        and queue = ready.due and tenant = :tenant
                                      order by rank, id
                                      limit :limit) as j
                 limit :limit) as of_ready
        union all
        select * from (select j.name, j.pool, j.due_at
                  from held
                 cross join lateral (select name, pool, due_at
                                       from jobs
                                      where state = 'pending' and stage = 'held' and limit_key is not null
                                        and queue = held.due and tenant = :tenant
                                      order by limit_key, rank, id
                                      limit :limit) as j
                 limit :limit) as of_held
        union all
        select name, pool, due_at from {soonest waiting :now :limit: name, pool, due_at} as of_waiting where tenant = :tenant
        union all
        select name, pool, due_at from {soonest suspect :now :limit: name, pool, due_at} as of_suspect where tenant = :tenant) as due
 group by name, pool
