-- save_attributes: as SQLite's, for many runs in one round trip. :rows is a JSON array of objects.
with e as materialized (
    select * from json_to_recordset(:rows::json) as e (attributes text, run_id text)
)
update workflow_runs
   set attributes = e.attributes
  from e
 where workflow_runs.run_id = any (array(select run_id from e)) and workflow_runs.run_id = e.run_id
