-- The health of schedules, kept where their state is saved, and their lists by health, time zone and last run.
-- oldest code: 17
-- Rows that an older release saves keep the health they had until this one saves them.

-- Null until it is saved the first time, where it is not written in the spec as such.
alter table schedules add column time_zone text collate "C";
-- Whether the run that ended last failed.
alter table schedules add column failing smallint not null default 0;
-- Whether the last start came late.
alter table schedules add column late smallint not null default 0;
-- When it was last decided that a time of it was missed.
alter table schedules add column missed_at bigint;
update schedules
   set time_zone = coalesce(nullif(split_part(split_part(spec, '"time_zone":"', 2), '"', 1), ''), 'UTC'),
       failing = case when last_failure is null then 0 else 1 end;

-- afterwards:

drop index concurrently if exists schedules_by_next;
create index concurrently if not exists schedules_by_next on schedules (
    tenant, coalesce(next_at, 9223372036854775807), id, next_at, kind, status, function, time_zone, failing, late,
    missed_at
);
create index concurrently if not exists schedules_by_last on schedules (
    tenant, coalesce(last_at, -1), id, last_at, next_at, kind, status, function, time_zone, failing, late, missed_at
);
create index concurrently if not exists schedules_paused on schedules (tenant, id) where status = 'paused';
create index concurrently if not exists schedules_failing on schedules (tenant, id) where failing = 1;
create index concurrently if not exists schedules_late on schedules (tenant, id) where late = 1;
create index concurrently if not exists schedules_missed on schedules (tenant, missed_at, id)
 where missed_at is not null;
