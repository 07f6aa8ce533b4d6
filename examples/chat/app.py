from evertick import App, MutationCtx, QueryCtx

app = App("chat")


@app.mutation
def send_expiring_message(ctx: MutationCtx, body: str, author: str) -> str:
    message_id = ctx.db.insert("messages", {"body": body, "author": author})
    ctx.scheduler.run_after(5, destruct, message_id)  # with the insert, or not at all
    return message_id


@app.mutation(internal=True)
def destruct(ctx: MutationCtx, message_id: str) -> None:
    ctx.db.delete(message_id)


@app.query
def list_messages(ctx: QueryCtx) -> list[dict[str, object]]:
    return ctx.db.query("messages").collect()
