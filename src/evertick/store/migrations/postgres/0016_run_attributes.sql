-- Attributes of workflow runs. An earlier release would lose them when a run continues as new, and leave rows behind when
-- it deletes runs, so it must not go on beside this one.

alter table workflow_runs add column attributes text;

-- By what lists find runs: a row for each attribute. A value is JSON text.
create table workflow_attributes (
    tenant text collate "C" not null,
    name   text collate "C" not null,
    value  text collate "C" not null,
    run_id text collate "C" not null,
    primary key (tenant, name, value, run_id)
);

create index workflow_attributes_run on workflow_attributes (run_id);
