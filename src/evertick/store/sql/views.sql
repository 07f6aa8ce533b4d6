-- name: delete_view
-- Remove a view.
delete from saved_views where tenant = :tenant and id = :id

-- name: find_view
-- The view of an owner with a name. Reads the index saved_views_by_name.
select id, tenant, page, name, owner, params, created_by, created_at, updated_at
  from saved_views
 where tenant = :tenant and page = :page and owner = :owner and name = :name

-- name: get_view
-- A view by its id.
select id, tenant, page, name, owner, params, created_by, created_at, updated_at
  from saved_views
 where tenant = :tenant and id = :id

-- name: transfer_views
-- Give the views of an owner to another one. Reads all views: there are few, and it is rare.
update saved_views
   set owner = :to
 where owner = :owner

-- name: list_views
-- The views of a list that an owner sees: its own and those of everybody, by name. Reads the index saved_views_by_name.
select id, tenant, page, name, owner, params, created_by, created_at, updated_at
  from saved_views
 where tenant = :tenant and page = :page and owner in ('', :owner)
 order by name, id
 limit :limit

-- name: save_view
-- A view, new or changed.
insert into saved_views (id, tenant, page, name, owner, params, created_by, created_at, updated_at)
values (:id, :tenant, :page, :name, :owner, :params, :created_by, :created_at, :updated_at)
on conflict (id) do update
   set name = excluded.name, owner = excluded.owner, params = excluded.params, updated_at = excluded.updated_at
