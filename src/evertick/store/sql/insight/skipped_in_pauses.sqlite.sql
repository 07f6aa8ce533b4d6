-- skipped_in_pauses: how many times each of some schedules skipped since a moment because it is paused, to :limit at most.
-- :pauses is a JSON list of [id, moment]. Reads the primary key.
select p.id, (select count(*)
                from (select 1
                        from occurrences
                       where tenant = :tenant and schedule_id = p.id and nominal_at >= p.since and reason || '' = 'paused'
                       limit :limit) as skipped)
  from (select json_extract(value, '$[0]') as id, json_extract(value, '$[1]') as since from json_each(:pauses)) as p
