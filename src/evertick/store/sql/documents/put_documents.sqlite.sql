-- put_documents: write one document, new or changed. SQLite runs it once a row.
insert into documents (tenant, id, body)
values (?, ?, ?)
on conflict (tenant, id) do update set body = excluded.body
