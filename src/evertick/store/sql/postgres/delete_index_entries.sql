-- delete_index_entries: remove entries of declared indexes in one round trip.
delete from index_entries
 where (tenant, index_name, key, document_id)
    in (select * from unnest(:tenant::text[], :index_name::text[], :key::bytea[], :document_id::text[]))
