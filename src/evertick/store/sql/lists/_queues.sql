-- The queues with ready jobs, and those with jobs that are held for their keys: after the last of each, one row of null. One
-- step of the index jobs_ready for each queue, and of jobs_by_limit_key for each with held jobs.
-- No queue is below 0: SQLite searches the index where it would otherwise scan it.
ready (due) as (
    select (select queue from jobs where state = 'pending' and stage = 'ready' and queue >= 0 order by queue limit 1)
    union all
    select (select queue from jobs where state = 'pending' and stage = 'ready' and queue > ready.due
             order by queue limit 1)
      from ready
     where ready.due is not null
), held (due) as (
    select (select queue from jobs where state = 'pending' and stage = 'held' and limit_key is not null
             order by queue limit 1)
    union all
    select (select queue from jobs where state = 'pending' and stage = 'held' and limit_key is not null
               and queue > held.due
             order by queue limit 1)
      from held
     where held.due is not null
)
