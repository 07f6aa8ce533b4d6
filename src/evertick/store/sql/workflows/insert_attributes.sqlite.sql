-- insert_attributes: by what lists find a run. SQLite runs it once a row; PostgreSQL's twin takes all rows in one round trip.
insert into workflow_attributes (tenant, name, value, run_id) values (?, ?, ?, ?)
