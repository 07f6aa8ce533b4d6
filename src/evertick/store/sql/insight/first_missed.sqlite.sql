-- first_missed: the first nominal time that was missed for one of some reasons and judged at :decided or later, and the
-- first moment at which such a run was due; among the first :limit that were missed for each since :since. Reads the index
-- occurrences_by_reason.
select min((select min(nominal_at)
              from (select nominal_at, decided_at
                      from occurrences
                     where tenant = :tenant and reason = r.each and nominal_at >= :since
                     order by nominal_at
                     limit :limit)
             where decided_at >= :decided)),
       min((select min(actual_at)
              from (select actual_at, decided_at
                      from occurrences
                     where tenant = :tenant and reason = r.each and nominal_at >= :since
                     order by nominal_at
                     limit :limit)
             where decided_at >= :decided))
  from {each :reasons} as r
