-- first_missed: the first time that was missed for a reason and judged at :decided or later, among the first :limit that were missed
-- for it since :since. Reads the index occurrences_by_reason.
select min(actual_at)
  from (select actual_at, decided_at
          from occurrences
         where tenant = :tenant and reason = :reason and nominal_at >= :since
         order by nominal_at
         limit :limit) as early
 where decided_at >= :decided
