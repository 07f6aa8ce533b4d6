-- insert_runs: as SQLite's, for many runs in one round trip. :rows is a JSON array of objects.
insert into workflow_runs (run_id, seed, generation, parent_seq, progress, attributes, restarted_from)
select run_id, seed, generation, parent_seq, progress, attributes, restarted_from
  from json_to_recordset(:rows::json)
       as e (run_id text, seed text, generation integer, parent_seq integer, progress text, attributes text,
             restarted_from text)
