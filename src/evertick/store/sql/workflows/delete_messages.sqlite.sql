-- delete_messages: what the runs of the JSON list :runs have here. Lists come as JSON, and each database reads it in its way.
delete from workflow_inbox indexed by workflow_inbox_run where run_id in (select value from json_each(:runs))
