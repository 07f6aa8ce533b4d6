"""What customers may automate: the functions that their scripts have, and three scripts to begin with.

Each function acts for the company whose script calls it (`ctx.tenant`), whatever its arguments say. Those with a
`QueryCtx` read at once. Those with a `MutationCtx` are done in the transaction that ends the run: a mail is there
exactly if the run has ended, and once.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from crm.tables import ADDRESS, Cart, Case, Mail, Sale
from evertick import App, ApplicationError, MutationCtx, QueryCtx
from evertick.scripts import ScriptPlan

HOUR_MS = 3_600_000

app = App("crm", database_url=ADDRESS)
app.scripts.enable(per_tenant=2)
app.scripts.plan(ScriptPlan(cpu_ms=500, runs_per_hour=1_000))


@app.scripts.host("carts.open")
def open_carts(ctx: QueryCtx, hours: int) -> list[dict[str, Any]]:
    """Carts that are open, and that nobody has touched for some hours."""
    before = _now_ms(ctx) - hours * HOUR_MS
    found = ctx.session.scalars(
        select(Cart)
        .where(Cart.company == ctx.tenant, Cart.state == "open", Cart.touched_at <= before)
        .order_by(Cart.id)
        .limit(500)
    )
    return [{"id": each.id, "email": each.email, "value": each.value} for each in found]


@app.scripts.host("carts.reminded")
def mark_reminded(ctx: MutationCtx, cart: int) -> None:
    """Note that the owner of a cart was reminded, so that it is not listed again."""
    _own(ctx, Cart, cart).state = "reminded"


@app.scripts.host("sales.total")
def sales_total(ctx: QueryCtx, since: int, until: int) -> float:
    """What was sold from a moment on and before another one."""
    total = ctx.session.scalar(
        select(func.sum(Sale.value)).where(Sale.company == ctx.tenant, Sale.sold_at >= since, Sale.sold_at < until)
    )
    return float(total or 0)


@app.scripts.host("cases.waiting")
def waiting_cases(ctx: QueryCtx, hours: int) -> list[dict[str, Any]]:
    """Cases without a response that have been open for some hours, and are not escalated."""
    before = _now_ms(ctx) - hours * HOUR_MS
    found = ctx.session.scalars(
        select(Case)
        .where(Case.company == ctx.tenant, Case.answered_at.is_(None), Case.opened_at <= before)
        .where(~Case.is_escalated)
        .order_by(Case.id)
        .limit(500)
    )
    return [{"id": each.id, "title": each.title, "owner": each.owner} for each in found]


@app.scripts.host("cases.escalate")
def escalate(ctx: MutationCtx, case: int) -> None:
    """Note that somebody was told of a case."""
    _own(ctx, Case, case).is_escalated = True


@app.scripts.host("mail")
def mail(ctx: MutationCtx, to: str, subject: str, body: str) -> None:
    """Send a mail."""
    ctx.session.add(Mail(company=ctx.tenant, to=to, subject=subject, body=body))


def _now_ms(ctx: QueryCtx) -> int:
    return int(ctx.now.timestamp() * 1_000)


def _own(ctx: MutationCtx, table: Any, row_id: int) -> Any:
    """A row of the company. For one of another company the run ends with this error, and nothing is done."""
    found = ctx.session.get(table, row_id)
    if found is None or found.company != ctx.tenant:
        raise ApplicationError(f"there is no {table.__name__.lower()} {row_id}")
    return found


@dataclass(frozen=True)
class Recipe:
    """A script that a company begins with, and when it runs."""

    source: str
    language: str
    when: str
    catch_up: str
    """What becomes of times at which nothing ran: totals want all of them, reminders the latest alone."""
    input: dict[str, Any]


RECIPES = {
    "open-carts": Recipe(
        language="javascript",
        when="every day at 9:00",
        catch_up="latest",
        input={"hours": 24},
        source="""// Remind those whose cart is still open from yesterday.
export default async function (ctx) {
  const carts = await ctx.carts.open(ctx.input.hours)
  for (const cart of carts) {
    await ctx.mail(cart.email, "Your cart is waiting", `There are things for ${cart.value} in it.`)
    await ctx.carts.reminded(cart.id)
  }
  ctx.log("reminded", carts.length)
  return carts.length
}
""",
    ),
    "weekly-totals": Recipe(
        language="python",
        when="every Monday at 8:00",
        catch_up="all",
        input={"above": 1_000, "to": "manager@example.com"},
        source="""# Mail the sales of the week before to a manager, if they are above a value.
WEEK_MS = 7 * 24 * 3600 * 1000

def main(ctx):
    until = ctx.run["scheduledAt"]
    total = ctx.sales.total(until - WEEK_MS, until)
    if total > ctx.input["above"]:
        week = ctx.time.format(until, "UTC", "YYYY-MM-DD")
        ctx.mail(ctx.input["to"], "Sales until " + week, "Sold for " + str(total))
    return total
""",
    ),
    "waiting-cases": Recipe(
        language="javascript",
        when="every 4 hours",
        catch_up="latest",
        input={"hours": 24},
        source="""// Tell the owner of each case that has been open for a day without a response.
export default async function (ctx) {
  for (const one of await ctx.cases.waiting(ctx.input.hours)) {
    await ctx.mail(one.owner, "No response yet: " + one.title, "It has been open for more than a day.")
    await ctx.cases.escalate(one.id)
  }
}
""",
    ),
}


def automate(company: str) -> None:
    """Give a company the three scripts, each with its schedule."""
    tenant = app.tenant(company)
    for name, recipe in RECIPES.items():
        tenant.scripts.create(name, recipe.source, language=recipe.language)
        tenant.scripts.publish(name)
        run = tenant.scripts.call(name, recipe.input)
        tenant.schedules.create(name, when=recipe.when, do=run, catch_up=recipe.catch_up)
