"""The text of `/metrics`, of servers and of workers."""

from collections.abc import Callable

from evertick.app.app import App


def metrics_of(app: App) -> Callable[[], bytes] | None:
    """Makes the text of an app's metrics, counted from now on; None where the extra is not installed."""
    try:
        from evertick.metrics import Metrics
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("prometheus_client"):
            raise
        return None
    return Metrics(app).text
