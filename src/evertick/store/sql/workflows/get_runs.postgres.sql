-- get_runs: the records of the runs in the JSON list :runs. Lists come as JSON, and each database reads it in its way.
select run_id, seed, generation, parent_seq, progress
  from workflow_runs
 where run_id = any (array(select json_array_elements_text(:runs::json)))
