-- delete_run_records: what the runs of the JSON list :runs have here. Lists come as JSON, and each database reads it in its way.
delete from workflow_runs where run_id = any (array(select json_array_elements_text(:runs::json)))
