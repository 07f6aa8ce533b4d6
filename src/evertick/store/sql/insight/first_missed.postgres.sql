-- first_missed: as SQLite's; a lateral join makes PostgreSQL read each reason by itself, and an order that only the index
-- occurrences_by_reason has keeps it from looking for the reason among all that happened.
select min(early.nominal_at), min(early.actual_at)
  from {each :reasons} as r
 cross join lateral (select nominal_at, actual_at, decided_at
                       from occurrences
                      where tenant = :tenant and reason between r.each and r.each and nominal_at >= :since
                      order by reason, nominal_at
                      limit :limit) as early
 where early.decided_at >= :decided
