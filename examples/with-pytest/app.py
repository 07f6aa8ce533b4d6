"""Reminders of invoices: the first after two weeks, then one a week until the invoice is paid, five at most."""

from evertick import App, MutationCtx

app = App("invoices")

FIRST_S = 14 * 86_400
NEXT_S = 7 * 86_400
REMINDERS_MAX = 5


@app.mutation
def send_invoice(ctx: MutationCtx, customer: str, cents: int) -> str:
    """Write an invoice and schedule its first reminder: both, or neither."""
    invoice = ctx.db.insert("invoices", {"customer": customer, "cents": cents, "is_paid": False, "reminders": 0})
    ctx.scheduler.run_after(FIRST_S, remind, invoice)
    return invoice


@app.mutation(internal=True)
def remind(ctx: MutationCtx, invoice_id: str) -> None:
    """Remind a customer, and schedule the next reminder."""
    invoice = ctx.db.get(invoice_id)
    if invoice is None or invoice["is_paid"]:
        return
    ctx.db.patch(invoice_id, {"reminders": invoice["reminders"] + 1})
    if invoice["reminders"] + 1 < REMINDERS_MAX:
        ctx.scheduler.run_after(NEXT_S, remind, invoice_id)


@app.mutation
def pay(ctx: MutationCtx, invoice_id: str) -> None:
    """Note that an invoice is paid."""
    ctx.db.patch(invoice_id, {"is_paid": True})
