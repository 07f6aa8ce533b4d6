-- The last change of a tenant's schedules, for the stream of hints.
-- oldest code: 17

-- afterwards:

create index concurrently if not exists schedule_history_newest on schedule_history (tenant, id);
