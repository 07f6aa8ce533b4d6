-- delete_index_entries: remove entries of declared indexes in one round trip. Keys travel as hexadecimal digits.
delete from index_entries e
 using json_to_recordset(:rows::json) as gone (tenant text, index_name text, key text, document_id text)
 where e.tenant = gone.tenant and e.index_name = gone.index_name and e.key = decode(gone.key, 'hex')
   and e.document_id = gone.document_id
