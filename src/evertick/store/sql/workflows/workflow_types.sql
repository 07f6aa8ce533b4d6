-- workflow_types: the workflows that were given a status, by name.
select name, status, changed_at from workflow_types order by name
