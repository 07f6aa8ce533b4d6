-- unfinished_jobs: how many unfinished jobs a tenant has, at most :limit. Reads the index jobs_unfinished.
select count(*)
  from (select 1
          from jobs
         where tenant = :tenant and state in ('pending', 'in_progress')
         limit :limit) as found
