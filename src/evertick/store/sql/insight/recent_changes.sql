-- recent_changes: the newest lines of the histories of a tenant's schedules. Reads the index schedule_history_newest,
-- whose order PostgreSQL would not ask for if the tenant were one: it would look for it among the newest of all.
select id, tenant, schedule_id, at, actor, action, detail
  from schedule_history
 where tenant between :tenant and :tenant
 order by tenant desc, id desc
 limit :limit
