-- get_script_version: one version of a script.
select tenant, script, version, language, source, digest, parameters, note, created_at
  from script_versions
 where tenant = :tenant and script = :script and version = :version
