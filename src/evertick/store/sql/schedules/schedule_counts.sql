-- schedule_counts: how many schedules are chosen, how many are in a bad state, paused, or due soon; each to :limit at most.
-- The chosen ones are counted in the order of a list, in whose index all filters are: without an order PostgreSQL would
-- rather read the whole table.
select (select count(*) from (select 1 from schedules {indexed by schedules_in_order}
                               where tenant = :tenant and {id} > ''
                                 and {chosen}
                               order by {id}
                               limit :limit) as chosen),
       (select count(*) from (select 1 from schedules {indexed by schedules_failing}
                               where tenant = :tenant and failing = 1 limit :limit) as failing),
       (select count(*) from (select 1 from schedules {indexed by schedules_late}
                               where tenant = :tenant and late = 1 limit :limit) as late),
       (select count(*) from (select 1 from schedules
                               where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :overdue_before
                                 and late <> 1
                               order by coalesce(next_at, 9223372036854775807), id
                               limit :limit) as overdue),
       (select count(*) from (select 1 from schedules
                               where tenant = :tenant and missed_at >= :day_ago limit :limit) as missed),
       (select count(*) from (select 1 from schedules {indexed by schedules_paused}
                               where tenant = :tenant and status = 'paused' limit :limit) as paused),
       (select count(*) from (select 1 from schedules
                               where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :soon
                               limit :limit) as soon)
