-- clear_index_entries: remove every entry of an index that is built anew or dropped.
delete from index_entries
 where tenant = :tenant and index_name = :index_name
