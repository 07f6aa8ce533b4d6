-- add_script_version: a version, which never changes.
insert into script_versions (tenant, script, version, language, source, digest, parameters, note, created_at)
values (:tenant, :script, :version, :language, :source, :digest, :parameters, :note, :created_at)
