-- Views of lists that people have saved.
-- oldest code: 17

create table saved_views (
    id         text collate "C" not null primary key,
    tenant     text collate "C" not null,
    page       text collate "C" not null,
    name       text collate "C" not null,
    owner      text collate "C" not null,
    params     text collate "C" not null,
    created_by text collate "C" not null,
    created_at bigint  not null,
    updated_at bigint  not null
);

-- The views of a list, and that no two of an owner are called the same.
create unique index saved_views_by_name on saved_views (tenant, page, owner, name);
