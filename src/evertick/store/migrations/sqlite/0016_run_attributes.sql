-- Attributes of workflow runs. An earlier release would lose them when a run continues as new, and leave rows behind when
-- it deletes runs, so it must not go on beside this one.

alter table workflow_runs add column attributes text;

-- By what lists find runs: a row for each attribute. A value is JSON text.
create table workflow_attributes (
    tenant text not null,
    name   text not null,
    value  text not null,
    run_id text not null,
    primary key (tenant, name, value, run_id)
) without rowid, strict;

create index workflow_attributes_run on workflow_attributes (run_id);
