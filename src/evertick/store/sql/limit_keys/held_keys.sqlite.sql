-- held_keys: of which functions, tenants and keys jobs are held, in the order of the index beyond (:queue, :tenant, :key), at
-- most :limit. A loose scan of the index jobs_by_limit_key: one step each, however many jobs are held.
-- SQLite's own: it walks the index for (queue, tenant, key) > (?, ?, ?) from the queue's beginning, so a step is three searches.
with recursive held (id, queue, tenant, limit_key, pool, name) as (
    select id, queue, tenant, limit_key, pool, name
      from jobs
     where id = coalesce(
           (select id from jobs indexed by jobs_by_limit_key
             where state = 'pending' and stage = 'held' and queue = :queue and tenant = :tenant and limit_key > :key
             order by limit_key, rank limit 1),
           (select id from jobs indexed by jobs_by_limit_key
             where state = 'pending' and stage = 'held' and limit_key is not null and queue = :queue and tenant > :tenant
             order by tenant, limit_key, rank limit 1),
           (select id from jobs indexed by jobs_by_limit_key
             where state = 'pending' and stage = 'held' and limit_key is not null and queue > :queue
             order by queue, tenant, limit_key, rank limit 1))
    union all
    select following.id, following.queue, following.tenant, following.limit_key, following.pool, following.name
      from held
     cross join jobs as following
        on following.id = coalesce(
           (select id from jobs indexed by jobs_by_limit_key
             where state = 'pending' and stage = 'held' and queue = held.queue and tenant = held.tenant
               and limit_key > held.limit_key
             order by limit_key, rank limit 1),
           (select id from jobs indexed by jobs_by_limit_key
             where state = 'pending' and stage = 'held' and limit_key is not null and queue = held.queue and tenant > held.tenant
             order by tenant, limit_key, rank limit 1),
           (select id from jobs indexed by jobs_by_limit_key
             where state = 'pending' and stage = 'held' and limit_key is not null and queue > held.queue
             order by queue, tenant, limit_key, rank limit 1))
    limit :limit
)
select queue, tenant, limit_key, pool, name
  from held
