-- get_script: one script of a tenant.
select tenant, name, language, source, parameters, note, published, versions, created_at, updated_at
  from scripts
 where tenant = :tenant and name = :name
