"""Whether costs stay flat beside millions of rows: `fill` writes them, `run` measures."""
