-- due_queues: the functions, pools and queues of a tenant's due jobs. One step of the index jobs_ready for each queue, and
-- of jobs_by_limit_key for each with held jobs; of jobs that are not made ready yet, and of suspects, the first :look of
-- all tenants.
with recursive {queues}
select name, pool, queue
  from ready
  join jobs on id = (select id
                       from jobs
                      where state = 'pending' and stage = 'ready' and queue = ready.due and tenant = :tenant
                      order by rank, id
                      limit 1)
union all
select name, pool, queue
  from held
  join jobs on id = (select id
                       from jobs
                      where state = 'pending' and stage = 'held' and limit_key is not null and queue = held.due
                        and tenant = :tenant
                      order by limit_key, rank, id
                      limit 1)
union all
select name, pool, queue from {soonest waiting :now :look: name, pool, queue} as waiting where tenant = :tenant
union all
select name, pool, queue from {soonest suspect :now :look: name, pool, queue} as suspects where tenant = :tenant
