-- The status of workflows. One without a row is active. Earlier releases start all of them.
-- oldest code: 12

create table workflow_types (
    name       text    not null primary key,
    status     text    not null,
    changed_at integer not null
) without rowid, strict;
