-- Views of lists that people have saved.
-- oldest code: 17

create table saved_views (
    id         text    not null primary key,
    tenant     text    not null,
    page       text    not null,
    name       text    not null,
    owner      text    not null,
    params     text    not null,
    created_by text    not null,
    created_at integer not null,
    updated_at integer not null
) without rowid, strict;

-- The views of a list, and that no two of an owner are called the same.
create unique index saved_views_by_name on saved_views (tenant, page, owner, name);
