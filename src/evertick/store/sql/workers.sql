-- name: expired_workers
-- Workers whose lease has expired, locked; those that another reaper has locked are skipped.
select id, started_at, leased_until, host, pid, app, release, serves, code, zone_data
  from workers
 where leased_until <= :now
 order by leased_until
 limit :limit
{for update skip locked}

-- name: holders_without_row
-- Identities that have claimed jobs but are no workers any more. A loose scan of the index jobs_running: one step a
-- worker, however many jobs each has.
with recursive holders (worker_id) as (
    select (select worker_id from jobs where state = 'in_progress' order by worker_id limit 1)
    union all
    select (select worker_id from jobs where state = 'in_progress' and worker_id > holders.worker_id
             order by worker_id limit 1)
      from holders
     where holders.worker_id is not null
)
select worker_id
  from holders
 where worker_id is not null and worker_id not in (select id from workers)

-- name: list_workers
-- Every worker, oldest first.
select id, started_at, leased_until, host, pid, app, release, serves, code, zone_data
  from workers
 order by started_at, id

-- name: register_worker
-- Store a worker that starts. `code` is the version of the schema that it knows.
insert into workers (id, started_at, leased_until, host, pid, app, release, serves, code, zone_data)
values (:id, :started_at, :leased_until, :host, :pid, :app, :release, :serves, :code, :zone_data)

-- name: remove_worker
-- Remove a worker that has no claimed jobs.
delete from workers
 where id = :id

-- name: renew_lease
-- Renew a lease. Changes nothing once the lease was taken away: then the worker must stop.
update workers
   set leased_until = :leased_until
 where id = :id
