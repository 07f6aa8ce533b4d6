-- delete_script_value: a value that scripts of a tenant kept.
delete from script_values
 where tenant = :tenant and key = :key
