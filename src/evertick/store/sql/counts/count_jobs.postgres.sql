-- count_jobs: as SQLite's; the kept counts and what has changed since they were summed.
select name, sum(unfinished)::bigint, sum(running)::bigint, sum(success)::bigint, sum(failed)::bigint, sum(canceled)::bigint,
       sum(retried)::bigint
  from (select name, unfinished, 0 as running, success, failed, canceled, retried from job_counts where tenant = :tenant
           and (cast(:name as text) is null or name = :name)
        union all
        select name, unfinished, 0, success, failed, canceled, retried from job_count_changes where tenant = :tenant
           and (cast(:name as text) is null or name = :name)
        union all
        select name, 0, 1, 0, 0, 0, 0 from {running}
         where state = 'in_progress' and worker_id > '' and kind = 'action' and (tenant || '') = :tenant
           and (cast(:name as text) is null or name = :name)) as counts
 group by name
