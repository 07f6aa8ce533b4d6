-- unfinished_jobs: how many unfinished jobs a tenant has. Reads the index jobs_unfinished, which is on an expression, so
-- that no other statement is tempted to read it.
select count(*)
  from jobs
 where (tenant || '') = :tenant and state in ('pending', 'in_progress')
