-- count_jobs: how many jobs a tenant has in each state.
select state, kind, count(*)
  from jobs
 where tenant = :tenant
 group by state, kind
