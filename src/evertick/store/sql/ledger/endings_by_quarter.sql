-- endings_by_quarter: how the occurrences of a schedule in [:start, :end) ended, counted by quarters of an hour, of the
-- newest :limit. Reads the primary key. The days of every zone begin with a quarter.
select quarter, fate, outcome, origin, is_late, count(*)
  from (select nominal_at / 900000 as quarter, fate, outcome, origin,
               case when started_at - actual_at > :late_after then 1 else 0 end as is_late
          from occurrences
         where tenant = :tenant and schedule_id = :schedule_id and nominal_at >= :start and nominal_at < :end
         order by nominal_at desc, origin desc, request desc
         limit :limit) as page
 group by quarter, fate, outcome, origin, is_late
