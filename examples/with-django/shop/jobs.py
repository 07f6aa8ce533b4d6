"""What happens later."""

import logging

from evertick import App, SyncActionCtx
from evertick.integrations.django import database_url

app = App("shop", database_url=database_url)
logger = logging.getLogger(__name__)


@app.action
def ship(ctx: SyncActionCtx, order_id: int) -> None:
    """Ship an order. To be run again after a crash, it must do no harm to an order that is shipped already."""
    from shop.models import Order

    if Order.objects.filter(pk=order_id, state="new").update(state="shipped"):
        logger.info("order %d is shipped", order_id)
