-- name: held_keys (postgres)
-- The functions, tenants and keys with held jobs, in the order of the index after (:queue, :tenant, :key), at most
-- :limit. A loose scan of the index jobs_by_limit_key: one step each, however many jobs are held.
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

-- name: held_keys (sqlite)
-- The functions, tenants and keys with held jobs, in the order of the index after (:queue, :tenant, :key), at most
-- :limit. A loose scan of the index jobs_by_limit_key: one step each, however many jobs are held. SQLite's own: it
-- scans the index for (queue, tenant, key) > (?, ?, ?) from the queue's start, so a step is three searches.
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

-- name: hold_jobs (postgres)
-- Hold ready jobs, the JSON list :ids, so that claims do not read them: their keys are full.
-- PostgreSQL's own: rows that another transaction is changing are skipped, not waited for.
update jobs
   set stage = 'held'
 where id = any (array(select id
                         from jobs
                        where id in {list :ids} and state = 'pending' and stage = 'ready'
                          for update skip locked))

-- name: hold_jobs (sqlite)
-- Hold ready jobs, the JSON list :ids, so that claims do not read them: their keys are full.
update jobs
   set stage = 'held'
 where id in {list :ids} and state = 'pending' and stage = 'ready'

-- name: ready_jobs
-- Up to :limit ready jobs of a tenant in a queue, by rank, after (:rank, :id), with their sizes and keys. Reads the
-- index jobs_ready.
select id, rank, size, limit_key
  from jobs {indexed by jobs_ready}
 where state = 'pending' and stage = 'ready' and queue = :queue and tenant = :tenant and rank >= :rank
   and (rank > :rank or id > :id)
 order by rank, id
 limit :limit

-- name: release_held (postgres)
-- Make held jobs ready again: for each of the JSON objects :rows the first of a function, tenant and key, by rank, up
-- to the given capacity. Reads the index jobs_by_limit_key. PostgreSQL's own: rows that another transaction is changing
-- are skipped, not waited for. With `stage in ('ready', '')` it cannot use the index jobs_ready, which has all keys
-- together.
update jobs
   set stage = 'ready'
 where id = any (array(
       select job.id
         from json_to_recordset(:rows::json) as r (queue bigint, tenant text, key text, capacity integer)
        cross join lateral (select count(*) as jobs
                              from (select 1
                                      from jobs
                                     where state = 'pending' and stage in ('ready', '') and queue = r.queue
                                       and tenant = r.tenant and limit_key = r.key
                                     limit r.capacity) as found) as ready
        cross join lateral (select id
                              from jobs
                             where state = 'pending' and stage = 'held' and queue = r.queue and tenant = r.tenant
                               and limit_key = r.key
                             order by rank, id
                             limit r.capacity - ready.jobs
                               for update skip locked) as job))

-- name: release_held (sqlite)
-- Make held jobs ready again, the first of a function, tenant and key, by rank, up to the given capacity. Reads the
-- index jobs_by_limit_key. SQLite runs it once a key; PostgreSQL's version takes all keys in one round trip.
update jobs
   set stage = 'ready'
 where id in (select id
                from jobs indexed by jobs_by_limit_key
               where state = 'pending' and stage = 'held' and queue = :queue and tenant = :tenant and limit_key = :key
               order by rank, id
               limit :capacity - (select count(*)
                             from (select 1
                                     from jobs indexed by jobs_by_limit_key
                                    where state = 'pending' and stage = 'ready' and queue = :queue and tenant = :tenant
                                      and limit_key = :key
                                    limit :capacity) as found))

-- name: running_by_key (postgres)
-- The pool, the tenant and the key of each running job with a key. Reads the index jobs_running: the jobs of all
-- workers, however many jobs wait. `worker_id > ''` is that index's first column.
select pool, tenant, limit_key
  from jobs
 where state = 'in_progress' and worker_id > '' and limit_key is not null

-- name: running_by_key (sqlite)
-- The pool, the tenant and the key of each running job with a key. Reads the index jobs_running: the jobs of all
-- workers, however many jobs wait.
select pool, tenant, limit_key
  from jobs indexed by jobs_running
 where state = 'in_progress' and limit_key is not null
