-- Which time zone data a worker has: workers of one fleet should have the same.

alter table workers add column zone_data text not null default '';
