"""What a browser would send of a form as it is shown."""

from bs4 import Tag


def fields_sent(form: Tag) -> dict[str, list[str]]:
    """The fields of a form with their values, without those of buttons."""
    found: dict[str, list[str]] = {}
    for each in form.find_all(["input", "select", "textarea"]):
        name, kind = each.get("name"), each.get("type")
        is_box = kind in ("checkbox", "radio")
        if not name or (is_box and not each.has_attr("checked")):
            continue
        if each.name == "select":
            options = each.find_all("option")
            chosen = next((one for one in options if one.has_attr("selected")), options[0] if options else None)
            value = "" if chosen is None else chosen.get("value", chosen.get_text())
        else:
            value = each.get_text() if each.name == "textarea" else each.get("value", "on" if is_box else "")
        found.setdefault(str(name), []).append(str(value).removeprefix("\n"))
    return found
