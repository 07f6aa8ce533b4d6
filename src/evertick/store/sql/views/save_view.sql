-- save_view: a new view, or what an old one is now.
insert into saved_views (id, tenant, page, name, owner, params, created_by, created_at, updated_at)
values (:id, :tenant, :page, :name, :owner, :params, :created_by, :created_at, :updated_at)
on conflict (id) do update
   set name = excluded.name, owner = excluded.owner, params = excluded.params, updated_at = excluded.updated_at
