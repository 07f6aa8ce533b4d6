"""A worker that runs scripts, as a process of its own that can be killed."""

import os
from datetime import timedelta

from evertick import App, Settings

SOURCE = """
export default async function (ctx) {
  await ctx.db.insert('outbox', {n: ctx.input, part: 1});
  await ctx.kv.set('n' + ctx.input, (await ctx.kv.get('n' + ctx.input) ?? 0) + 1);
  await ctx.db.insert('outbox', {n: ctx.input, part: 2});
  return ctx.input;
}
"""

app = App("killed", database_url=os.environ.get("EVERTICK_DATABASE_URL"), settings=Settings(lease=timedelta(seconds=6)))
app.scripts.enable(per_tenant=4)
app.scripts.tables("outbox", write=["outbox"])

if __name__ == "__main__":
    app.run()
