-- insert_attributes: as SQLite's, for many rows in one round trip. :rows is a JSON array of objects.
insert into workflow_attributes (tenant, name, value, run_id)
select tenant, name, value, run_id
  from json_to_recordset(:rows::json) as e (tenant text, name text, value text, run_id text)
