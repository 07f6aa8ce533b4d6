-- count_scripts: how many scripts a tenant has.
select count(*)
  from scripts
 where tenant = :tenant
