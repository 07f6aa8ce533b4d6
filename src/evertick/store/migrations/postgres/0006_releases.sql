-- Releases side by side: which version of the schema a worker's code knows, and the format in which a schedule is written,
-- so that code that does not know a newer one leaves it to code that does. Declared indexes are built for every tenant,
-- so their state is kept for all of them under the empty name; what was built for the default tenant is built anew.

alter table workers add column code integer not null default 0;
alter table schedules add column format smallint not null default 1;

insert into document_indexes (tenant, index_name, fields)
select distinct '', index_name, 'to be built' from document_indexes where tenant <> ''
on conflict do nothing;
delete from document_indexes where tenant <> '';
