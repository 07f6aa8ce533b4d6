-- count_jobs: how many jobs each function of a tenant has: the kept counts and what has changed since they were summed.
select name, sum(unfinished)::bigint, sum(success)::bigint, sum(failed)::bigint, sum(canceled)::bigint
  from (select name, unfinished, success, failed, canceled from job_counts where tenant = :tenant
           and (cast(:name as text) is null or name = :name)
        union all
        select name, unfinished, success, failed, canceled from job_count_changes where tenant = :tenant
           and (cast(:name as text) is null or name = :name)) as counts
 group by name
