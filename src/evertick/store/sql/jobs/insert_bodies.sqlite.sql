-- insert_bodies: keep large arguments apart from their job. SQLite runs it once a row.
insert into bodies (id, args)
values (?, ?)
