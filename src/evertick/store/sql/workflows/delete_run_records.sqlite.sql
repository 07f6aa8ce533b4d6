-- delete_run_records: what the runs of the JSON list :runs have here. Lists come as JSON, and each database reads it in its way.
delete from workflow_runs where run_id in (select value from json_each(:runs))
