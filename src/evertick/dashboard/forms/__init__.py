"""Forms that several pages share: the arguments of a function, and times as people type them."""
