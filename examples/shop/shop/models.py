"""The shop's own tables."""

from datetime import UTC, datetime

from sqlalchemy import DateTime, ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """All tables of the shop."""


class Order(Base):
    """An order. `reminder_id` is the job that will remind the customer."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    item: Mapped[str]
    is_paid: Mapped[bool] = mapped_column(default=False)
    reminder_id: Mapped[str | None]


class Reminder(Base):
    """A reminder that was sent."""

    __tablename__ = "reminders"

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"), index=True)
    email: Mapped[str]
    sent_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), default=lambda: datetime.now(UTC))
