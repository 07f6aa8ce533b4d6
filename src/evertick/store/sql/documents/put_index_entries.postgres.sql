-- put_index_entries: write entries of declared indexes in one round trip. Keys travel as hexadecimal digits.
insert into index_entries (tenant, index_name, key, document_id)
select tenant, index_name, decode(key, 'hex'), document_id
  from json_to_recordset(:rows::json) as e (tenant text, index_name text, key text, document_id text)
on conflict do nothing
