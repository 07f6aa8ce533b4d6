-- Lists of schedules by id with any filter, and their counts, from an index alone.
-- oldest code: 17

-- In the order of the list, with what its filters ask.
create index schedules_in_order on schedules (
    tenant, id, kind, status, function, time_zone, failing, late, missed_at, next_at
);

-- SQLite reads the row for each column that an index lacks, also for one whose value its condition says.
drop index schedules_paused;
create index schedules_paused on schedules (tenant, status, id) where status = 'paused';
drop index schedules_failing;
create index schedules_failing on schedules (tenant, failing, id) where failing = 1;
drop index schedules_late;
create index schedules_late on schedules (tenant, late, id) where late = 1;
