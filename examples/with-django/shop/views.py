"""Orders come in over HTTP."""

from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from shop.jobs import app, ship
from shop.models import Order


@csrf_exempt
@require_POST
def place_order(request: HttpRequest) -> JsonResponse:
    """Place an order that is shipped in a minute. The order and its job are one commit."""
    with transaction.atomic():
        order = Order.objects.create(item=request.POST["item"])
        job_id = app.bind(connection).run_after(60, ship, order.pk)
    return JsonResponse({"order": order.pk, "job": job_id}, status=201)
