-- What each pool may run. Only pools with a limit have a row. A release that does not know of these limits does not keep
-- them, but may go on beside one that does.
-- oldest code: 9

create table pool_limits (
    pool              text    not null primary key,
    running           integer,
    per_tenant        integer,
    starts_per_minute integer,
    paused            integer not null default 0,
    -- Up to when the starts so far have used the rate, in microseconds since the epoch.
    used_until_us     integer not null default 0
) strict;
