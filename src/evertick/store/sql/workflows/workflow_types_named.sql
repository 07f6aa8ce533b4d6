-- workflow_types_named: those workflows of the JSON list :names that were given a status.
select name, status, changed_at from workflow_types where name in {list :names}
