-- unchanged_scripts: which of some scripts have a draft that is the version which runs. Reads the primary keys.
select s.name
  from scripts as s
  join script_versions as v on v.tenant = s.tenant and v.script = s.name and v.version = s.published
 where s.tenant = :tenant and s.name in {list :names}
   and v.language = s.language and v.source = s.source and coalesce(v.parameters, '') = coalesce(s.parameters, '')
