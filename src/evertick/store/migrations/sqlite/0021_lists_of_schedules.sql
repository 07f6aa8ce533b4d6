-- Lists of schedules by their next time with any filter, and of the ledger by time and by reason, from an index alone.
-- oldest code: 17

drop index schedules_next;
-- In the order of the list, with what its filters ask.
create index schedules_by_next on schedules (
    tenant, coalesce(next_at, 9223372036854775807), id, next_at, kind, status, function
);

drop index occurrences_by_time;
create index occurrences_in_order on occurrences (tenant, nominal_at, schedule_id);
create index occurrences_by_reason on occurrences (tenant, reason, nominal_at, schedule_id);
