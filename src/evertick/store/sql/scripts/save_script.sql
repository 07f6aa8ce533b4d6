-- save_script: a new script, or what one is now.
insert into scripts (tenant, name, language, source, parameters, note, published, versions, created_at, updated_at)
values (:tenant, :name, :language, :source, :parameters, :note, :published, :versions, :created_at, :updated_at)
on conflict (tenant, name)
   do update set language = excluded.language, source = excluded.source, parameters = excluded.parameters,
                 note = excluded.note, published = excluded.published, versions = excluded.versions,
                 updated_at = excluded.updated_at
