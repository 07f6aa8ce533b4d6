-- insert_bodies: keep large arguments apart from their jobs, in one round trip.
insert into bodies (id, args)
select id, args
  from json_to_recordset(:rows::json) as r (id text, args text)
