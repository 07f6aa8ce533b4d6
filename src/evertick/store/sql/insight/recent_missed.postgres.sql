-- recent_missed: as SQLite's; a lateral join makes PostgreSQL read the end of each reason,
-- and an order that only the index occurrences_by_reason has keeps it from looking for the reason among all that happened.
select o.schedule_id, o.nominal_at, r.each, o.detail
  from {each :reasons} as r
 cross join lateral (select schedule_id, nominal_at, detail
                       from occurrences
                      where tenant = :tenant and reason between r.each and r.each and nominal_at >= :day_ago
                      order by reason desc, nominal_at desc
                      limit :limit) as o
