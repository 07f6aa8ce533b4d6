-- append_journal: as SQLite's, for many rows in one round trip. :rows is a JSON array of objects.
insert into workflow_journal (run_id, generation, position, kind, seq, name, at, call, arguments, due_at, attempt,
                              result, error, sender)
select run_id, generation, position, kind, seq, name, at, call, arguments, due_at, attempt, result, error,
       sender
  from json_to_recordset(:rows::json)
       as e (run_id text, generation integer, position integer, kind text, seq integer, name text, at bigint, call text,
             arguments text, due_at bigint, attempt integer, result text, error text, sender text)
