-- save_document_index: an index is built now.
insert into document_indexes (tenant, index_name, fields)
values (:tenant, :index_name, :fields)
on conflict (tenant, index_name) do update set fields = excluded.fields
