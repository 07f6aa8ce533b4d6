-- list_views: the views of a list that an owner sees: its own and those of everybody, by name. Reads the index saved_views_by_name.
select id, tenant, page, name, owner, params, created_by, created_at, updated_at
  from saved_views
 where tenant = :tenant and page = :page and owner in ('', :owner)
 order by name, id
 limit :limit
