-- The status of workflows. One without a row is active. Earlier releases start all of them.
-- oldest code: 12

create table workflow_types (
    name       text   collate "C" not null primary key,
    status     text   collate "C" not null,
    changed_at bigint not null
);
