-- put_index_entries: write one entry of a declared index. SQLite runs it once a row.
insert into index_entries (tenant, index_name, key, document_id)
values (?, ?, ?, ?)
on conflict do nothing
