-- count_script_values: how many values the scripts of a tenant keep.
select count(*)
  from script_values
 where tenant = :tenant
