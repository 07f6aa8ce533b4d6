-- list_scripts: the scripts of a tenant by name, beyond :after.
select tenant, name, language, source, parameters, note, published, versions, created_at, updated_at
  from scripts
 where tenant = :tenant and name > :after
 order by name
 limit :limit
