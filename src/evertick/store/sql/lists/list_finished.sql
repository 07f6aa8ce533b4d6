-- list_finished: a tenant's finished jobs in :state, beyond the id :beyond, at most :limit; {by} and {order} are filled
-- in when the statement is read. Reads the index of history that begins with what {by} compares. A filter that is null
-- does not narrow.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt, failures,
       crashes, null, parent_id, key, schedule_id, pool, priority, stop
  from history
 where tenant = :tenant {by} and state = :state and {id} {beyond} :beyond
   and (cast(:name as text) is null or name = :name)
   and (cast(:schedule_id as text) is null or schedule_id = :schedule_id)
   and (cast(:due_from as bigint) is null or due_at >= :due_from)
   and (cast(:due_until as bigint) is null or due_at < :due_until)
 order by {id} {order}
 limit :limit
