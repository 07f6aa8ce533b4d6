-- tenant_usage: what each tenant in the JSON list :tenants uses, but for what runs: unfinished jobs, the size of their arguments,
-- and schedules, at most :most. Reads the kept counts, and the indexes jobs_by_name and of schedules alone. SQLite keeps one
-- count for each function, PostgreSQL changes as well.
select t.each,
       (select coalesce(sum(unfinished), 0) from job_counts where tenant = t.each),
       (select coalesce(sum(size), 0) from jobs where tenant = t.each),
       (select count(*) from (select 1 from schedules where tenant = t.each limit :most) as counted)
  from {each :tenants} as t
