-- find_view: the view of an owner that is called so. Reads the index saved_views_by_name.
select id, tenant, page, name, owner, params, created_by, created_at, updated_at
  from saved_views
 where tenant = :tenant and page = :page and owner = :owner and name = :name
