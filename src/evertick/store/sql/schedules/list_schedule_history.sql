-- list_schedule_history: what was done to a schedule, newest first, before :before.
select id, tenant, schedule_id, at, actor, action, detail, version
  from schedule_history
 where tenant = :tenant and schedule_id = :schedule_id and id < :before
 order by id desc
 limit :limit
