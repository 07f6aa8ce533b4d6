-- unfinished_jobs: how many jobs of a tenant have not ended. SQLite keeps one row for each function, PostgreSQL
-- what has changed since they were summed as well.
select cast(coalesce(sum(unfinished), 0) as bigint)
  from {kept counts}
 where tenant = :tenant
