-- count_jobs: how many jobs each function of a tenant has. SQLite keeps one row for each, PostgreSQL changes as well.
select name, unfinished, success, failed, canceled
  from job_counts
 where tenant = :tenant
   and (cast(:name as text) is null or name = :name)
