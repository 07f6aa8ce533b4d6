-- count_jobs: how many jobs each function of a tenant has: unfinished ones, those of them that are actions and run, those
-- that have ended, and how many of the failed ones were run again. SQLite keeps one row for each, PostgreSQL what has
-- changed since they were summed as well. What runs is not kept: it is read by the index jobs_running, which holds no other jobs than those that workers hold.
select name, cast(sum(unfinished) as bigint), cast(sum(running) as bigint), cast(sum(success) as bigint),
       cast(sum(failed) as bigint), cast(sum(canceled) as bigint), cast(sum(retried) as bigint)
  from (select name, unfinished, 0 as running, success, failed, canceled, retried from {kept counts} where tenant = :tenant
           and (cast(:name as text) is null or name = :name)
        union all
        select name, 0, 1, 0, 0, 0, 0 from {running}
         where state = 'in_progress' and worker_id > '' and kind = 'action' and (tenant || '') = :tenant
           and (cast(:name as text) is null or name = :name)) as counts
 group by name
