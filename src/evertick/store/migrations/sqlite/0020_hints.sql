-- The last change of a tenant's schedules, for the stream of hints.
-- oldest code: 17

create index schedule_history_newest on schedule_history (tenant, id);
