-- insert_runs: write the record of a run. SQLite runs it once a row; PostgreSQL's twin takes all rows in one round trip.
insert into workflow_runs (run_id, seed, generation, parent_seq, progress, attributes, restarted_from)
values (?, ?, ?, ?, ?, ?, ?)
