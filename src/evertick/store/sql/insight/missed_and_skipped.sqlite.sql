-- missed_and_skipped: the newest occurrences that were missed since a moment, at most :limit of each reason, and
-- whether a trigger or a backfill has started them since. And how many times each of some schedules skipped since
-- a moment because it is paused, to :skipped_most at most, where others have their time; :pauses is a JSON list of [id, moment].
-- Reads the index occurrences_by_reason, and the primary key.
select o.schedule_id, o.nominal_at, o.reason, o.detail, o.actual_at, o.decided_at,
       exists (select 1
                 from occurrences as later
                where later.tenant = :tenant and later.schedule_id = o.schedule_id and later.nominal_at = o.nominal_at
                  and later.origin in ('backfill', 'trigger') and later.fate = 'started')
  from {each :reasons} as r
 cross join occurrences as o
 where o.tenant = :tenant and o.reason = r.each
   and o.nominal_at >= max(:since, coalesce((select edge.nominal_at
                                                 from occurrences as edge
                                                where edge.tenant = :tenant and edge.reason = r.each
                                                order by edge.nominal_at desc
                                                limit 1 offset :limit), :since))
union all
select p.id, (select count(*)
                from (select 1
                        from occurrences
                       where tenant = :tenant and schedule_id = p.id and nominal_at >= p.since and reason || '' = 'paused'
                       limit :skipped_most) as skipped), 'paused', '', 0, 0, 0
  from (select json_extract(value, '$[0]') as id, json_extract(value, '$[1]') as since from json_each(:pauses)) as p
