"""What the shop does later. `evertick worker shop/jobs.py` runs it."""

from evertick import ActionCtx, App, MutationCtx, Retry
from shop.database import ADDRESS
from shop.models import Order, Reminder

app = App("shop", database_url=ADDRESS)


@app.mutation
def remind(ctx: MutationCtx, order_id: int, email: str) -> None:
    """Remind a customer of an order that is not paid. The row and the mail's job are one commit."""
    if ctx.session.get_one(Order, order_id).is_paid:
        return
    ctx.session.add(Reminder(order_id=order_id, email=email))
    mail = ctx.scheduler.using(retry=Retry(5))
    mail.run_after(0, send_mail, email, f"Your order {order_id} is waiting for its payment.")


@app.mutation
def ask_for_review(ctx: MutationCtx, order_id: int) -> None:
    """Ask a customer how it went."""
    order = ctx.session.get_one(Order, order_id)
    if order.is_paid:
        ctx.scheduler.run_after(0, send_mail, order.email, f"How do you like your {order.item}?")


@app.action
async def send_mail(ctx: ActionCtx, email: str, text: str) -> None:
    """Send a mail. A real one would give the job's id to the provider, so that a retry sends no second mail."""
    ctx.log.info("mail to %s: %s", email, text)
