-- trouble: what is wrong with a tenant, in one row: how many jobs failed since a moment, and how many of these were not run
-- again; whether a time was missed in the last month, and how many in the last day, to :many; how many schedules are failing
-- and paused, to :limit; which pools are paused and why, and which have used their rate; the :shown failing schedules that
-- ran last with the outcomes of their :runs newest occurrences, and the state of the first :looked_at paused ones; the runs
-- of workflows that cannot go on, which have an error while they wait and are tried again until :stuck_until, of the first
-- :stuck_look jobs that wait until then; and the functions with failures that no failing schedule tells of, with how many
-- were not run again, and the last of them (SQLite takes its id from the row with the maximum). Reads the indexes
-- history_failed, occurrences_by_reason, schedules_failing, schedules_paused, schedules_by_last and jobs_waiting, and the
-- primary key of occurrences. Lists are JSON.
select (select json_array(count(*), count(*) - count(retried_as))
          from (select retried_as
                  from history indexed by history_failed
                 where tenant = :tenant and state = 'failed' and completed_at >= :hour_ago
                 limit :limit)),
       (select json_array((select count(*) from (select 1 from {each :reasons} as r
                                                   cross join occurrences
                                                   where tenant = :tenant and reason = r.each and nominal_at >= :month_ago
                                                   limit 1)),
                          (select count(*) from (select 1 from {each :reasons} as r
                                                   cross join occurrences
                                                   where tenant = :tenant and reason = r.each and nominal_at >= :day_ago
                                                   limit :many)))),
       (select count(*) from (select 1 from schedules indexed by schedules_failing
                               where tenant = :tenant and failing = 1 limit :limit)),
       (select count(*) from (select 1 from schedules indexed by schedules_paused
                               where tenant = :tenant and status = 'paused' limit :limit)),
       (select json_group_array(json_array(pool, note, paused))
          from (select pool, note, paused
                  from pool_limits
                 where paused <> 0 or (starts_per_minute is not null and used_until_us > :now * 1000)
                 order by pool)),
       (select json_group_array(json_array(f.id, s.last_failure, coalesce(s.last_at, s.updated_at),
                                           (select json_group_array(outcome)
                                              from (select outcome
                                                      from occurrences
                                                     where tenant = :tenant and schedule_id = f.id
                                                     order by nominal_at desc, origin desc, request desc
                                                     limit :runs))))
          from (select id
                  from schedules indexed by schedules_by_last
                 where tenant = :tenant and failing = 1
                   and exists (select 1 from schedules indexed by schedules_failing where tenant = :tenant and failing = 1)
                 order by coalesce(last_at, -1) desc, id desc
                 limit :shown) as f
         cross join schedules as s
         where s.tenant = :tenant and s.id = f.id),
       (select json_group_array(json_array(id, state))
          from (select id, state
                  from schedules indexed by schedules_paused
                 where tenant = :tenant and status = 'paused'
                 order by id
                 limit :looked_at)),
       (select json_group_array(json_array(id, name, error, tried_at))
          from (select id, name, error, coalesce(started_at, created_at) as tried_at
                  from {soonest waiting :stuck_until :stuck_look: id, name, kind, error, started_at, created_at} as soon
                 where kind = 'workflow' and error is not null and tenant = :tenant
                 order by id
                 limit :stuck_most)),
       (select json_array(count(*), (select id
                                           from schedules
                                          where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :late_at
                                          order by coalesce(next_at, 9223372036854775807), id
                                          limit 1), min(next_at))
          from (select next_at
                  from schedules
                 where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :late_at
                 order by coalesce(next_at, 9223372036854775807), id
                 limit :limit) as overdue),
       (select json_group_array(json_array(name, jobs, at, id, (select error from history where id = f.id)))
          from (select name, count(*) as jobs, max(completed_at) as at, id
                  from (select name, completed_at, id, retried_as,
                               case when schedule_id is null then 0
                                    else (select count(*)
                                            from schedules as s
                                           where s.tenant = :tenant and s.id = h.schedule_id and s.failing = 1) end
                               as of_failing
                          from history as h indexed by history_failed
                         where tenant = :tenant and state = 'failed' and completed_at >= :hour_ago
                         limit :limit) as failed
                 where retried_as is null
                 group by name
                having count(*) > sum(of_failing)
                 order by at desc, name
                 limit :shown) as f)
