-- save_runs: write what changes of a run. SQLite runs it once a row; PostgreSQL's twin takes all rows in one round trip.
update workflow_runs set generation = ?, progress = ? where run_id = ?
