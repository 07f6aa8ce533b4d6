-- holders_without_row: identities that hold jobs but are no workers (any more). A loose scan of the index
-- jobs_running: one step a holder, however many jobs each has.
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
