"""Documents: `ctx.db`, its queries, tables and indexes."""
