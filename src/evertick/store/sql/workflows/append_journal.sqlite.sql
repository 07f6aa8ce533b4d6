-- append_journal: add a row. SQLite runs it once a row; PostgreSQL's twin takes all rows in one round trip.
insert into workflow_journal (run_id, generation, position, kind, seq, name, at, call, arguments, due_at, attempt,
                              result, error, sender)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
