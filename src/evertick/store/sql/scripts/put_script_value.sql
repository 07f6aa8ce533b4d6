-- put_script_value: a value that scripts of a tenant keep.
insert into script_values (tenant, key, value, updated_at)
values (:tenant, :key, :value, :updated_at)
on conflict (tenant, key) do update set value = excluded.value, updated_at = excluded.updated_at
