-- get_view: a view by its id.
select id, tenant, page, name, owner, params, created_by, created_at, updated_at
  from saved_views
 where tenant = :tenant and id = :id
