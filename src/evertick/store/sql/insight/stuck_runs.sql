-- stuck_runs: runs of workflows of the tenants in the JSON list :tenants that cannot go on, which have an error while they wait.
-- They are tried again soon, so they are looked for among the first :look jobs that wait until :until, of all tenants. Reads
-- the index jobs_waiting.
select tenant, id, name, error, coalesce(started_at, created_at)
  from {soonest waiting :until :look: id, name, kind, error, started_at, created_at} as soon
 where kind = 'workflow' and error is not null and tenant in (select t.each from {each :tenants} as t)
 order by id
 limit :limit
