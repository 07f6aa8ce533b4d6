-- add_schedule_history: a line about what was done to a schedule.
insert into schedule_history (id, tenant, schedule_id, at, actor, action, detail, version)
values (:id, :tenant, :schedule_id, :at, :actor, :action, :detail, :version)
