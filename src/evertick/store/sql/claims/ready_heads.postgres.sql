-- ready_heads: tenants with ready jobs in the queues that are not among :others, and the rank of the first job of each, in
-- the order of the index beyond (:queue, :tenant), at most :limit. A loose scan of the index jobs_ready: one step a head,
-- and one for each of the other queues, however many jobs each has; at most :steps.
-- PostgreSQL's own: it compares rows of values within the index, which SQLite does not.
with recursive head (queue, tenant, rank) as (
    (select queue, tenant, rank
       from jobs
      where state = 'pending' and stage = 'ready' and (queue, tenant) > (:queue::bigint, :tenant::text)
      order by queue, tenant, rank
      limit 1)
    union all
    (select following.queue, following.tenant, following.rank
       from head
      cross join lateral (select queue, tenant, rank
                            from jobs
                           where state = 'pending' and stage = 'ready'
                             and (queue, tenant) > (
                                 case when head.queue = any (:others::bigint[]) then head.queue + 1 else head.queue end,
                                 case when head.queue = any (:others::bigint[]) then '' else head.tenant end)
                           order by queue, tenant, rank
                           limit 1) as following)
)
select queue, tenant, rank
  from (select queue, tenant, rank from head limit :steps) as seen
 where queue <> all (:others::bigint[])
 limit :limit
