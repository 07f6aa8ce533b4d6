-- next_sync_at: when the next gateway is to be synced.
select min(sync_at)
  from gateways
