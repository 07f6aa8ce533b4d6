-- skipped_in_pauses: as SQLite's; PostgreSQL names the reader of JSON otherwise.
select p.id, (select count(*)
                from (select 1
                        from occurrences
                       where tenant = :tenant and schedule_id = p.id and nominal_at >= p.since and reason || '' = 'paused'
                       limit :limit) as skipped)
  from (select value ->> 0 as id, (value ->> 1)::bigint as since from json_array_elements(:pauses::json)) as p
