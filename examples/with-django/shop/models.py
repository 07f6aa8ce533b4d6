"""The shop's own table."""

from django.db import models


class Order(models.Model):
    """An order, new or shipped."""

    item = models.CharField(max_length=40)
    state = models.CharField(max_length=10, default="new")
