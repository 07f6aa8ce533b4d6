-- next_look_at: when the next gateway is to be looked at.
select min(look_at)
  from gateways
