-- What each pool may run. Only pools with a limit have a row. A release that does not know of these limits does not keep
-- them, but may go on beside one that does.
-- oldest code: 9

create table pool_limits (
    pool              text collate "C" not null primary key,
    running           bigint,
    per_tenant        bigint,
    starts_per_minute bigint,
    paused            bigint not null default 0,
    -- Up to when the starts so far have used the rate, in microseconds since the epoch.
    used_until_us     bigint  not null default 0
);
