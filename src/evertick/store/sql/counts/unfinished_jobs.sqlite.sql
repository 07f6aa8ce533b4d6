-- unfinished_jobs: how many jobs of a tenant have not ended. SQLite keeps one row for each function, PostgreSQL changes as well.
select coalesce(sum(unfinished), 0)
  from job_counts
 where tenant = :tenant
