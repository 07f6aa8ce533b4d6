-- delete_script: one script of a tenant.
delete from scripts
 where tenant = :tenant and name = :name
