-- save_workflow_type: give a workflow a status.
insert into workflow_types (name, status, changed_at)
values (:name, :status, :changed_at)
on conflict (name) do update set status = excluded.status, changed_at = excluded.changed_at
