-- Lists of schedules by id with any filter from an index alone.
-- oldest code: 17

-- afterwards:

-- In the order of the list, with what its filters ask. The expression keeps it from being read where the primary key is
-- meant.
create index concurrently if not exists schedules_in_order on schedules (tenant, (id || '')) include (
    id, kind, status, function, time_zone, failing, late, missed_at, next_at
);
