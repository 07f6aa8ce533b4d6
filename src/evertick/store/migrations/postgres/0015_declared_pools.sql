-- What code has declared for a pool. Earlier releases leave it as it is.
-- oldest code: 12

alter table pool_limits add column declared text;
