-- list_script_versions: the versions of a script before :before, the newest first.
select tenant, script, version, language, source, digest, parameters, note, created_at
  from script_versions
 where tenant = :tenant and script = :script and version < :before
 order by version desc
 limit :limit
