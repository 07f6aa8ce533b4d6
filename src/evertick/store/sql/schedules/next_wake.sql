-- next_wake: when the next schedule wants to be looked at. Reads the index schedules_wake.
select wake_at
  from schedules
 where wake_at is not null and format <= :format
 order by wake_at
 limit 1
