-- first_missed: as SQLite's; an order that only the index occurrences_by_reason has keeps PostgreSQL from looking for the reason
-- among all that happened.
select min(actual_at)
  from (select actual_at, decided_at
          from occurrences
         where tenant = :tenant and reason between :reason and :reason and nominal_at >= :since
         order by reason, nominal_at
         limit :limit) as early
 where decided_at >= :decided
