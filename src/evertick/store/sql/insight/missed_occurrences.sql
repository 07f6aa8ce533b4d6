-- missed_occurrences: the first :limit schedules, of a tenant or of all, that were found since :since to have missed times, with
-- how many of these times no trigger and no backfill runs. They are counted among the :look newest occurrences of each.
-- Reads the index schedules_missed, which has only schedules that ever missed a time, and the primary key of occurrences.
select tenant, id, function, missed
  from (select s.tenant, s.id, s.function,
               (select count(*)
                  from (select o.nominal_at, o.fate, o.decided_at
                          from occurrences as o
                         where o.tenant = s.tenant and o.schedule_id = s.id
                         order by o.nominal_at desc
                         limit :look) as newest
                 where newest.fate = 'missed' and newest.decided_at >= :since
                   and not exists (select 1
                                     from occurrences as later
                                    where later.tenant = s.tenant and later.schedule_id = s.id
                                      and later.nominal_at = newest.nominal_at
                                      and later.origin in ('backfill', 'trigger')
                                      and later.fate = 'started')) as missed
          from (select tenant, id, function
                  from schedules {indexed by schedules_missed}
                 where missed_at >= :since and (cast(:tenant as text) is null or tenant = :tenant)
                 order by tenant, missed_at, id
                 limit :limit) as s) as counted
 where missed > 0
