-- unfinished_jobs: how many unfinished jobs a tenant has. Reads the index jobs_by_name alone.
select count(*)
  from jobs
 where tenant = :tenant
