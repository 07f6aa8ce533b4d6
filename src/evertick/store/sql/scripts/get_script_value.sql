-- get_script_value: a value that scripts of a tenant keep.
select value
  from script_values
 where tenant = :tenant and key = :key
