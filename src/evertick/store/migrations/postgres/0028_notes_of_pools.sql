-- Why a pool is paused. Earlier releases pause without a reason, and leave that of the last pause as it is.
-- oldest code: 17

alter table pool_limits add column note text not null default '';
