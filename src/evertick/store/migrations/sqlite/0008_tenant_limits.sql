-- What each tenant may use. Only tenants with a limit have a row. A release that does not know of limits does not keep
-- them, but may go on beside one that does.
-- oldest code: 7

create table tenant_limits (
    tenant            text    not null primary key,
    running           integer,
    starts_per_minute integer,
    jobs              integer,
    argument_bytes    integer,
    schedules         integer,
    -- Up to when the starts so far have used the rate, in microseconds since the epoch.
    used_until_us     integer not null default 0
) strict;

-- What a tenant has to be done, for its quotas.
create index jobs_unfinished on jobs (tenant, size) where state in ('pending', 'in_progress');
