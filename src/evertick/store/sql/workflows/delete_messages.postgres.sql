-- delete_messages: what the runs of the JSON list :runs have here. Lists come as JSON, and each database reads it in its way.
-- Reads the index workflow_inbox_run.
delete from workflow_inbox where (run_id || '') = any (array(select json_array_elements_text(:runs::json)))
