"""Forms that several pages share: the arguments of a function, and moments as people type them."""
