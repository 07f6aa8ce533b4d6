-- save_attributes: the attributes of a run. SQLite runs it once a row; PostgreSQL's twin takes all rows in one round trip.
update workflow_runs set attributes = ? where run_id = ?
