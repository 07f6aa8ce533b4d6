"""Orders and reminders."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "orders",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("email", sa.String, nullable=False),
        sa.Column("item", sa.String, nullable=False),
        sa.Column("is_paid", sa.Boolean, nullable=False),
        sa.Column("reminder_id", sa.String),
    )
    op.create_table(
        "reminders",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("order_id", sa.Integer, sa.ForeignKey("orders.id"), nullable=False),
        sa.Column("email", sa.String, nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_reminders_order_id", "reminders", ["order_id"])


def downgrade() -> None:
    """Drop both tables."""
    op.drop_table("reminders")
    op.drop_table("orders")
