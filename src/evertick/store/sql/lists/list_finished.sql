-- list_finished: a tenant's finished jobs in :state, beyond the id :beyond and up to :horizon, at most :limit. What stands
-- in braces is filled in when the statement is read. Reads the index of history that begins with what {by} compares.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt, failures,
       crashes, null, parent_id, key, schedule_id, pool, priority, stop, retried_as
  from history
 where tenant = :tenant {by} and state = :state and {id} {beyond} :beyond and {id} {within} :horizon
{narrowed}
 order by {id} {order}
 limit :limit
