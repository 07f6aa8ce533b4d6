-- missed_and_skipped: as SQLite's; a lateral join makes PostgreSQL read the end of each reason,
-- and an order that only the index occurrences_by_reason has keeps it from looking for the reason among all that happened.
-- Not "exists": PostgreSQL would read the whole ledger once to know all that has been made up for.
select o.schedule_id, o.nominal_at, r.each, o.detail, o.actual_at, o.decided_at,
       (select 1
          from occurrences as later
         where later.tenant = :tenant and later.schedule_id = o.schedule_id and later.nominal_at = o.nominal_at
           and later.origin in ('backfill', 'trigger') and later.fate = 'started'
         limit 1) is not null
  from {each :reasons} as r
 cross join lateral (select schedule_id, nominal_at, detail, actual_at, decided_at
                       from occurrences
                      where tenant = :tenant and reason between r.each and r.each and nominal_at >= :since
                      order by reason desc, nominal_at desc
                      limit :limit) as o
union all
select p.id, (select count(*)
                from (select 1
                        from occurrences
                       where tenant = :tenant and schedule_id = p.id and nominal_at >= p.since and reason || '' = 'paused'
                       limit :skipped_most) as skipped), 'paused', '', 0, 0, false
  from (select value ->> 0 as id, (value ->> 1)::bigint as since from json_array_elements(:pauses::json)) as p
