-- argument_bytes: the size of the arguments of a tenant's unfinished jobs. Reads the index jobs_by_name alone.
select coalesce(sum(size), 0)
  from jobs
 where tenant = :tenant
