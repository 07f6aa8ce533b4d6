-- unfinished_jobs: as SQLite's; the kept counts and what has changed since they were summed.
select coalesce(sum(unfinished), 0)::bigint
  from (select unfinished from job_counts where tenant = :tenant
        union all
        select unfinished from job_count_changes where tenant = :tenant) as counts
