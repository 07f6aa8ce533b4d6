-- unfinished_jobs: how many unfinished jobs a tenant has. Reads the index jobs_unfinished.
select count(*)
  from jobs
 where tenant = :tenant and state in ('pending', 'in_progress')
