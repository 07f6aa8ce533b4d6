"""The trial of the shop in full.

    python -m tests.shop.run --orders 1000

Both databases, one after the other. The folder of a trial that failed is kept.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import click

from tests.postgres import PostgresServer
from tests.shop.trial import Report, Trial


def try_shop(folder: Path, server: PostgresServer | None, orders: int, rate: float) -> Report:
    """One trial."""
    trial = Trial(folder, server)
    try:
        return trial.run(orders, rate)
    finally:
        trial.close()


@click.command()
@click.option("--orders", default=1_000, show_default=True, type=click.IntRange(20))
@click.option("--rate", default=40.0, show_default=True, help="Orders a second.")
def main(orders: int, rate: float) -> None:
    """Try the shop."""
    failed = False
    for name in ("sqlite", "postgres"):
        folder = Path(tempfile.mkdtemp(prefix=f"evertick-shop-{name}-"))
        if name == "sqlite":
            report = try_shop(folder, None, orders, rate)
        else:
            with PostgresServer() as server:
                report = try_shop(folder, server, orders, rate)
        click.echo(f"{name}: {report}")
        if report.holds:
            shutil.rmtree(folder)
        else:
            failed = True
            click.echo(f"the folder is kept: {folder}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
