-- trouble: as SQLite's; PostgreSQL names the makers of JSON otherwise, and reads a schedule's newest occurrences by a lateral
-- join.
select (select cast(json_build_array(count(*), count(*) - count(retried_as)) as text)
          from (select retried_as
                  from history
                 where tenant = :tenant and state = 'failed' and completed_at >= :hour_ago
                 limit :limit) as failed),
       (select cast(json_build_array(
           (select count(*) from (select 1 from {each :reasons} as r
                                   cross join occurrences
                                   where tenant = :tenant and reason = r.each and nominal_at >= :month_ago
                                   limit 1) as one),
           (select count(*) from (select 1 from {each :reasons} as r
                                   cross join occurrences
                                   where tenant = :tenant and reason = r.each and nominal_at >= :day_ago
                                   limit :many) as lately)) as text)),
       (select count(*) from (select 1 from schedules
                               where tenant = :tenant and failing = 1 limit :limit) as failing),
       (select count(*) from (select 1 from schedules
                               where tenant = :tenant and status = 'paused' limit :limit) as paused),
       (select coalesce(json_agg(json_build_array(pool, note, paused)), '[]')::text
          from (select pool, note, paused
                  from pool_limits
                 where paused <> 0 or (starts_per_minute is not null and used_until_us > :now::bigint * 1000)
                 order by pool) as waiting),
       (select coalesce(json_agg(json_build_array(f.id, s.last_failure, coalesce(s.last_at, s.updated_at), ended.outcomes)
                                 order by f.place), '[]')::text
          from (select id, row_number() over () as place
                  from (select id
                          from schedules
                         where tenant = :tenant and failing = 1
                           and exists (select 1 from schedules where tenant = :tenant and failing = 1)
                         order by coalesce(last_at, -1) desc, id desc
                         limit :shown) as newest) as f
         cross join lateral (select last_failure, last_at, updated_at
                               from schedules
                              where tenant = :tenant and id = f.id) as s
         cross join lateral (select coalesce(json_agg(outcome), '[]') as outcomes
                               from (select outcome
                                       from occurrences
                                      where tenant = :tenant and schedule_id = f.id
                                      order by nominal_at desc, origin desc, request desc
                                      limit :runs) as newest) as ended),
       (select coalesce(json_agg(json_build_array(id, state)), '[]')::text
          from (select id, state
                  from schedules
                 where tenant = :tenant and status = 'paused'
                 order by id
                 limit :looked_at) as paused),
       (select coalesce(json_agg(json_build_array(id, name, error, tried_at)), '[]')::text
          from (select id, name, error, coalesce(started_at, created_at) as tried_at
                  from {soonest waiting :stuck_until :stuck_look: id, name, kind, error, started_at, created_at} as soon
                 where kind = 'workflow' and error is not null and tenant = :tenant
                 order by id
                 limit :stuck_most) as stuck),
       (select cast(json_build_array(count(*), (select id
                                           from schedules
                                          where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :late_at
                                          order by coalesce(next_at, 9223372036854775807), id
                                          limit 1), min(next_at)) as text)
          from (select next_at
                  from schedules
                 where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :late_at
                 order by coalesce(next_at, 9223372036854775807), id
                 limit :limit) as overdue),
       (select coalesce(json_agg(json_build_array(name, jobs, at, id, (select error from history where id = f.id))
                                 order by at desc, name), '[]')::text
          from (select name, count(*) as jobs, max(completed_at) as at,
                       (array_agg(id order by completed_at desc))[1] as id
                  from (select name, completed_at, id, retried_as,
                               case when schedule_id is null then 0
                                    else (select count(*)
                                            from schedules as s
                                           where s.tenant = :tenant and s.id = h.schedule_id and s.failing = 1) end
                               as of_failing
                          from history as h
                         where tenant = :tenant and state = 'failed' and completed_at >= :hour_ago
                         limit :limit) as failed
                 where retried_as is null
                 group by name
                having count(*) > sum(of_failing)
                 order by at desc, name
                 limit :shown) as f)
