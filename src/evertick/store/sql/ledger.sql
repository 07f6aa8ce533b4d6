-- name: count_backfill
-- How many rows of a backfill have each fate and outcome. Reads the primary key in [start, end).
select fate, outcome, count(*)
  from occurrences
 where tenant = :tenant and schedule_id = :schedule_id and nominal_at >= :start and nominal_at < :end
   and origin = 'backfill' and request = :request
 group by fate, outcome

-- name: delete_run_reports (postgres)
-- Remove processed reports, in one round trip. They are looked up in the primary key.
delete from run_reports
 where job_id = any (array(select job_id from json_to_recordset(:rows::json) as h (job_id text)))

-- name: delete_run_reports (sqlite)
-- Remove a processed report. SQLite runs it once a row.
delete from run_reports
 where job_id = ?

-- name: end_occurrences (postgres)
-- Store the ends of started occurrences' runs, in one round trip. Each row is looked up by its key, and then written by
-- its place. The key is given as a range: for equal values, PostgreSQL without statistics takes occurrences_in_order to
-- be as good as the primary key, and would read all occurrences of the same instant for each run. The schedule is
-- locked, or gone: nothing else writes the row meanwhile.
with e as materialized (
    select *
      from json_to_recordset(:rows::json)
           as e (ended_at bigint, outcome text, detail text, tenant text, schedule_id text, nominal_at bigint, origin text,
                 request text)
), found as materialized (
    select o.ctid as place, e.ended_at, e.outcome, e.detail
      from e
     cross join lateral (select ctid
                           from occurrences
                          where tenant = e.tenant
                            and (schedule_id, nominal_at, origin, request)
                                >= (e.schedule_id, e.nominal_at, e.origin, e.request)
                            and (schedule_id, nominal_at, origin, request)
                                <= (e.schedule_id, e.nominal_at, e.origin, e.request)
                         offset 0) o
)
update occurrences
   set ended_at = found.ended_at, outcome = found.outcome,
       detail = coalesce(found.detail, occurrences.detail)
  from found
 where occurrences.ctid = any (array(select place from found)) and occurrences.ctid = found.place
   and occurrences.fate = 'started' and occurrences.ended_at is null

-- name: end_occurrences (sqlite)
-- Store the end of a started occurrence's run. SQLite runs it once a row.
update occurrences
   set ended_at = ?, outcome = ?, detail = coalesce(?, detail)
 where tenant = ? and schedule_id = ? and nominal_at = ? and origin = ? and request = ?
   and fate = 'started' and ended_at is null

-- name: endings_by_quarter
-- How the occurrences of a schedule in [:start, :end) ended, counted by quarters of an hour, of the
-- newest :limit. Reads the primary key. The days of every zone begin with a quarter.
select quarter, fate, outcome, origin, is_late, count(*)
  from (select nominal_at / 900000 as quarter, fate, outcome, origin,
               case when started_at - actual_at > :late_after then 1 else 0 end as is_late
          from occurrences
         where tenant = :tenant and schedule_id = :schedule_id and nominal_at >= :start and nominal_at < :end
         order by nominal_at desc, origin desc, request desc
         limit :limit) as page
 group by quarter, fate, outcome, origin, is_late

-- name: get_occurrence
-- One row of the ledger.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from occurrences
 where tenant = :tenant and schedule_id = :schedule_id and nominal_at = :nominal_at and origin = :origin
   and request = :request

-- name: has_missed
-- Whether a time of a schedule was found missed since :decided that neither a trigger nor a backfill has started since;
-- of the times since :since. Reads the primary key.
select 1
  from occurrences as missed
 where missed.tenant = :tenant and missed.schedule_id = :schedule_id and missed.nominal_at >= :since
   and missed.fate = 'missed' and missed.decided_at >= :decided
   and not exists (select 1
                     from occurrences as later
                    where later.tenant = :tenant and later.schedule_id = :schedule_id
                      and later.nominal_at = missed.nominal_at
                      and later.origin in ('backfill', 'trigger') and later.fate = 'started')
 limit 1

-- name: last_occurrences (postgres)
-- As SQLite's; a lateral join makes PostgreSQL take one step of the primary key for each schedule.
select o.*
  from {each :ids} as s
 cross join lateral (select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
                            started_at, ended_at, outcome
                       from occurrences
                      where tenant = :tenant and schedule_id = s.each
                      order by nominal_at desc, origin desc, request desc
                      limit 1) as o

-- name: last_occurrences (sqlite)
-- The newest occurrence of each of some schedules. Reads the primary key.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from {each :ids} as s
 cross join occurrences
 where tenant = :tenant and schedule_id = s.each
   and (nominal_at, origin, request) = (select edge.nominal_at, edge.origin, edge.request
                                          from occurrences edge
                                         where edge.tenant = :tenant and edge.schedule_id = s.each
                                         order by edge.nominal_at desc, edge.origin desc, edge.request desc
                                         limit 1)

-- name: list_occurrences_asc
-- The ledger by nominal time, upwards, after the given position.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from occurrences
 where tenant = :tenant and nominal_at < :end
   and (nominal_at, {schedule_id}, origin, request) > (:after_nominal, :after_schedule, :after_origin, :after_request)
 order by nominal_at asc, {schedule_id} asc, origin asc, request asc
 limit :limit

-- name: list_occurrences_by_reason_asc
-- As list_occurrences_asc, of one reason, if its fate is one of :fates.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from occurrences
 where tenant = :tenant and reason = :reason and nominal_at < :end
   and (nominal_at, {schedule_id}, origin, request) > (:after_nominal, :after_schedule, :after_origin, :after_request)
   and (cast(:fates as text) is null or cast(:fates as text) like '%,' || fate || ',%')
 order by nominal_at asc, {schedule_id} asc, origin asc, request asc
 limit :limit

-- name: list_occurrences_by_reason_desc
-- As list_occurrences_desc, of one reason, if its fate is one of :fates.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from occurrences
 where tenant = :tenant and reason = :reason and nominal_at >= :start
   and (nominal_at, {schedule_id}, origin, request) < (:after_nominal, :after_schedule, :after_origin, :after_request)
   and (cast(:fates as text) is null or cast(:fates as text) like '%,' || fate || ',%')
 order by nominal_at desc, {schedule_id} desc, origin desc, request desc
 limit :limit

-- name: list_occurrences_desc
-- The ledger by nominal time, downwards, after the given position.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from occurrences
 where tenant = :tenant and nominal_at >= :start
   and (nominal_at, {schedule_id}, origin, request) < (:after_nominal, :after_schedule, :after_origin, :after_request)
 order by nominal_at desc, {schedule_id} desc, origin desc, request desc
 limit :limit

-- name: list_occurrences_of_asc
-- As list_occurrences_asc, of one schedule: reads the primary key.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from occurrences
 where tenant = :tenant and schedule_id = :schedule_id and nominal_at >= :start and nominal_at < :end
   and (nominal_at, origin, request) > (:after_nominal, :after_origin, :after_request)
   and (cast(:fates as text) is null or cast(:fates as text) like '%,' || fate || ',%')
   and (cast(:reason as text) is null or reason = :reason)
   and (cast(:request as text) is null or request = :request)
 order by nominal_at asc, origin asc, request asc
 limit :limit

-- name: list_occurrences_of_desc
-- As list_occurrences_desc, of one schedule: reads the primary key.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from occurrences
 where tenant = :tenant and schedule_id = :schedule_id and nominal_at >= :start and nominal_at < :end
   and (nominal_at, origin, request) < (:after_nominal, :after_origin, :after_request)
   and (cast(:fates as text) is null or cast(:fates as text) like '%,' || fate || ',%')
   and (cast(:reason as text) is null or reason = :reason)
   and (cast(:request as text) is null or request = :request)
 order by nominal_at desc, origin desc, request desc
 limit :limit

-- name: newest_endings (postgres)
-- As SQLite's; a lateral join makes PostgreSQL read the primary key for each schedule.
select s.each, o.fate, o.outcome, o.origin, o.started_at - o.actual_at
  from {each :ids} as s
 cross join lateral (select nominal_at, origin, request, fate, outcome, started_at, actual_at
                       from occurrences
                      where tenant = :tenant and schedule_id = s.each
                      order by nominal_at desc, origin desc, request desc
                      limit :others + 1) as o

-- name: newest_endings (sqlite)
-- How the newest occurrences of some schedules ended, :count of each, the newest first. Reads the primary key; all
-- occurrences of the time at which :count is reached are included.
select o.schedule_id, o.fate, o.outcome, o.origin, o.started_at - o.actual_at
  from {each :ids} as s
 cross join occurrences o
 where o.tenant = :tenant and o.schedule_id = s.each
   and o.nominal_at >= coalesce((select edge.nominal_at
                                   from occurrences edge
                                  where edge.tenant = :tenant and edge.schedule_id = s.each
                                  order by edge.nominal_at desc
                                  limit 1 offset :others), -9223372036854775807)
 order by o.schedule_id, o.nominal_at desc, o.origin desc, o.request desc

-- name: orphaned_reports
-- Ends of runs whose schedule was deleted, except those that another evaluator has locked.
select job_id, tenant, schedule_id, nominal_at, origin, request, ended_at, outcome, result, message
  from run_reports r
 where not exists (select 1 from schedules s where s.tenant = r.tenant and s.id = r.schedule_id)
 limit :limit
{for update skip locked}

-- name: prune_occurrences
-- Remove at most :limit rows of the ledger decided before :before. Waiting and running ones stay.
delete from occurrences
 where (tenant, schedule_id, nominal_at, origin, request) in (
        select tenant, schedule_id, nominal_at, origin, request
          from occurrences
         where decided_at < :before and fate <> 'buffered' and (job_id is null or ended_at is not null)
         order by decided_at
         limit :limit)

-- name: record_occurrences
-- Rows of the ledger: new ones, or the later fate of waiting ones.
insert into occurrences {rows: tenant text, schedule_id text, nominal_at bigint, origin text, request text,
    actual_at bigint, fate text, reason text, detail text, decided_at bigint, run_id text, job_id text,
    started_at bigint}
on conflict (tenant, schedule_id, nominal_at, origin, request) do update
   set fate = excluded.fate, reason = excluded.reason, detail = excluded.detail, decided_at = excluded.decided_at,
       run_id = excluded.run_id, job_id = excluded.job_id, started_at = excluded.started_at
 where occurrences.fate = 'buffered'

-- name: report_runs
-- Store the ends of schedules' runs. A job reports once.
insert into run_reports {rows: job_id text, tenant text, schedule_id text, nominal_at bigint, origin text,
    request text, ended_at bigint, outcome text, result text, message text}
on conflict do nothing

-- name: run_reports_of (postgres)
-- The reports of the runs of some schedules, by schedule, in the order in which the runs ended.
-- :keys is a JSON list of [tenant, id]; PostgreSQL's function for it has another name.
select r.job_id, r.tenant, r.schedule_id, r.nominal_at, r.origin, r.request, r.ended_at, r.outcome, r.result, r.message
  from (select value ->> 0 as tenant, value ->> 1 as id from json_array_elements(:keys::json)) k
  join run_reports r on r.tenant = k.tenant and r.schedule_id = k.id
 order by r.tenant, r.schedule_id, r.ended_at, r.job_id
 limit :limit

-- name: run_reports_of (sqlite)
-- The reports of the runs of some schedules, by schedule, in the order in which the runs ended.
-- :keys is a JSON list of [tenant, id].
select r.job_id, r.tenant, r.schedule_id, r.nominal_at, r.origin, r.request, r.ended_at, r.outcome, r.result, r.message
  from (select json_extract(value, '$[0]') as tenant, json_extract(value, '$[1]') as id from json_each(:keys)) k
 cross join run_reports r on r.tenant = k.tenant and r.schedule_id = k.id
 order by r.tenant, r.schedule_id, r.ended_at, r.job_id
 limit :limit
