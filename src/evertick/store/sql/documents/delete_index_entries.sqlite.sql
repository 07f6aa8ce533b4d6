-- delete_index_entries: remove one entry of a declared index. SQLite runs it once a row.
delete from index_entries
 where tenant = ? and index_name = ? and key = ? and document_id = ?
