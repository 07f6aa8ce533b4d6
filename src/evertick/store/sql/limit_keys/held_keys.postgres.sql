-- held_keys: of which functions, tenants and keys jobs are held, in the order of the index beyond (:queue, :tenant, :key), at
-- most :limit. A loose scan of the index jobs_by_limit_key: one step each, however many jobs are held.
-- PostgreSQL's own: it compares rows of values within the index, which SQLite does not.
with recursive held (queue, tenant, limit_key, pool, name) as (
    (select queue, tenant, limit_key, pool, name
       from jobs
      where state = 'pending' and stage = 'held' and limit_key is not null
        and (queue, tenant, limit_key) > (:queue::bigint, :tenant::text, :key::text)
      order by queue, tenant, limit_key
      limit 1)
    union all
    (select following.queue, following.tenant, following.limit_key, following.pool, following.name
       from held
      cross join lateral (select queue, tenant, limit_key, pool, name
                            from jobs
                           where state = 'pending' and stage = 'held' and limit_key is not null
                             and (queue, tenant, limit_key) > (held.queue, held.tenant, held.limit_key)
                           order by queue, tenant, limit_key
                           limit 1) as following)
)
select queue, tenant, limit_key, pool, name
  from held
 limit :limit
