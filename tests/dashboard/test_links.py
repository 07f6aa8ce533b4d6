"""Links and forms that ask: what a page sends, its target takes. An unknown parameter of an address is refused."""

from collections import deque
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from bs4 import BeautifulSoup, Tag
from starlette.routing import Match

from tests.app.conftest import OpenApp
from tests.dashboard.commands import soup_of
from tests.dashboard.conftest import text_of
from tests.dashboard.test_every_form import FORMS, things_of
from tests.dashboard.test_pages import TABLE

FETCHED: Final = ("{path:path}", "/events")
"""The last parts of addresses that are no pages: files, and what never ends."""

SENT: Final = {f"bulk/schedules/{each}" for each in ("delete", "pause", "resume")}
"""Forms that a list is sent for."""


def test_every_link_and_every_form_names_what_its_target_takes(open_app: OpenApp) -> None:
    """One page of each kind that links lead to is read; a kind is a route with the names of its parameters."""
    things = things_of(open_app)
    site = things.site
    site.app.schedules.pause("t", "maintenance")
    opened = [where.format(**things.ids) for places in FORMS.values() for where in places if where not in SENT]
    left = deque([("", "/t/default"), *(("a form", f"/t/default/{each}") for each in opened)])
    seen: set[tuple[str, frozenset[str]]] = set()
    wrong: list[str] = []
    while left:
        origin, address = left.popleft()
        name = route_of(address)
        kind = (name, frozenset(each for each, _ in parse_qsl(urlsplit(address).query, keep_blank_values=True)))
        if not name or kind in seen:
            continue
        seen.add(kind)
        reply = site.request("GET", address)
        html = reply.headers.get("content-type", "").startswith("text/html")
        if reply.status_code >= 400:
            page = soup_of(reply.text)
            wrong.append(f"{origin} -> {address}: {reply.status_code} {text_of(page.main or page)}")
        elif html:
            left.extend((address, each) for each in addresses_in(soup_of(reply.text), address))

    assert wrong == []
    assert len({name for name, _ in seen}) >= 50, sorted({name for name, _ in seen})


def route_of(address: str) -> str:
    """The name of the page at an address of this server; none for what is read elsewhere."""
    parts = urlsplit(address)
    scope = {"type": "http", "path": parts.path, "method": "GET"}
    found = next((each for each in TABLE if each.matches(scope)[0] is Match.FULL), None)
    return "" if parts.netloc or found is None or found.path.endswith(FETCHED) else found.name


def addresses_in(page: BeautifulSoup, here: str) -> Iterator[str]:
    """Where the links of a page lead, and its forms that ask, sent by each of their buttons with every box ticked."""
    for link in page.find_all("a", href=True):
        yield urljoin(here, str(link["href"])).partition("#")[0]
    forms = page.find_all("form")
    named = {str(form["id"]): form for form in forms if form.has_attr("id")}
    fields: dict[int, list[tuple[str, str]]] = {id(form): [] for form in forms}
    buttons: dict[int, list[Tag]] = {id(form): [] for form in forms}
    for each in page.find_all(["input", "select", "textarea", "button"]):
        owner = named.get(str(each["form"])) if each.has_attr("form") else each.find_parent("form")
        if owner is not None and each.name == "button":
            buttons[id(owner)].append(each)
        elif owner is not None and each.has_attr("name"):
            fields[id(owner)].append((str(each["name"]), value_of(each)))
    for form in forms:
        own = buttons[id(form)]
        for sender in [form, *own] if form.has_attr("action") or not own else own:
            if str(sender.get("formmethod") or form.get("method") or "get").lower() == "get":
                to = urljoin(here, str(sender.get("formaction") or form.get("action") or "")).partition("?")[0]
                pressed = [(str(sender["name"]), value_of(sender))] if sender in own and sender.has_attr("name") else []
                sent = dict(fields[id(form)])  # of radio buttons with one name the last, of rows one
                yield f"{to}?{urlencode([*sent.items(), *pressed])}"


def value_of(field: Tag) -> str:
    """What a field or a button sends; of a list of options the last one."""
    if field.name == "select":
        field = field.find_all("option")[-1]
        return str(field.get("value", field.get_text()))
    return str(field.get("value", ""))
