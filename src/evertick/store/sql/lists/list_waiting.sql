-- list_waiting: a tenant's jobs that wait for their time, the soonest first: beyond a place and up to another one. Reads the
-- index jobs_waiting, which has those of all tenants; PostgreSQL would otherwise read all of the tenant and sort them.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, null, attempt, failures, crashes,
       worker_id, parent_id, key, schedule_id, pool, priority, stop, cast(null as text)
  from jobs {indexed by jobs_waiting}
 where state = 'pending' and stage = 'waiting' and tenant || '' = :tenant
   and (due_at, id) > (:beyond_at, :beyond_id) and (due_at, id) <= (:horizon_at, :horizon_id)
   and {id} > :low and {id} < :high
{narrowed}
 order by due_at, id
 limit :limit
