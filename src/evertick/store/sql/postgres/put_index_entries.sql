-- put_index_entries: write entries of declared indexes in one round trip.
insert into index_entries (tenant, index_name, key, document_id)
select *
  from unnest(:tenant::text[], :index_name::text[], :key::bytea[], :document_id::text[])
on conflict do nothing
