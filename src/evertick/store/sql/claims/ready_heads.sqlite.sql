-- ready_heads: tenants with ready jobs in the queues that are not among :others, and the rank of the first job of each, in
-- the order of the index beyond (:queue, :tenant), at most :limit. A loose scan of the index jobs_ready: one step a head,
-- and one for each of the other queues, however many jobs each has; at most :steps.
-- SQLite's own: it walks the index for (queue, tenant) > (?, ?) from the queue's beginning, so a step is two searches.
with recursive head (queue, tenant, rank) as (
    select queue, tenant, rank
      from jobs
     where id = coalesce(
           (select id from jobs indexed by jobs_ready
             where state = 'pending' and stage = 'ready' and queue = :queue and tenant > :tenant
             order by tenant, rank limit 1),
           (select id from jobs indexed by jobs_ready
             where state = 'pending' and stage = 'ready' and queue > :queue
             order by queue, tenant, rank limit 1))
    union all
    select following.queue, following.tenant, following.rank
      from head
     cross join jobs as following
        on following.id = coalesce(
           case when head.queue not in (select value from json_each(:others))
                then (select id from jobs indexed by jobs_ready
                       where state = 'pending' and stage = 'ready' and queue = head.queue and tenant > head.tenant
                       order by tenant, rank limit 1) end,
           (select id from jobs indexed by jobs_ready
             where state = 'pending' and stage = 'ready' and queue > head.queue
             order by queue, tenant, rank limit 1))
    limit :steps
)
select queue, tenant, rank
  from head
 where queue not in (select value from json_each(:others))
 limit :limit
