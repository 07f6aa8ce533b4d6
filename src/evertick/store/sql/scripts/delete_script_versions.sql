-- delete_script_versions: all versions of a script.
delete from script_versions
 where tenant = :tenant and script = :script
