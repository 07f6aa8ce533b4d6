"""The documentation's site. `make docs` builds it into build/site, without a warning and without the network.

The pages are the Markdown files of this folder, which also read well on a forge. What is generated from the program
(the Python reference) and the changelog are written to `reference/generated/` first; the page of all commands is filled
in while it is read.

`NAVIGATION` and `PUBLIC_MODULES` are the two lists to extend: the one with a page, the other with a public module.
"""

import ast
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

from docutils import nodes
from sphinx.addnodes import desc_signature
from sphinx.pycode import ModuleAnalyzer

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "_site"))

from commands import commands_page  # noqa: E402  (it lies in docs/_site, which is no package)
from docstrings import as_rst  # noqa: E402

import evertick  # noqa: E402

PUBLIC_MODULES = (
    "evertick",
    "evertick.schedules",
    "evertick.workflows",
    "evertick.scripts",
    "evertick.functions",
    "evertick.documents",
    "evertick.client",
    "evertick.errors",
    "evertick.metrics",
    "evertick.integrations.asgi",
    "evertick.integrations.django",
    "evertick.integrations.logs",
    "evertick.integrations.otel",
    "evertick.recurrence",
    "evertick.testing",
)
"""Each gets a page from its docstrings."""

NAVIGATION = {
    "Tutorial": ["guide/first-steps"],
    "How-to guides": [
        "guide/scheduled-functions",
        "guide/schedules",
        "guide/crons",
        "guide/times",
        "guide/database",
        "guide/your-own-transaction",
        "guide/sharing-a-database",
        "guide/pools",
        "guide/workflows",
        "guide/choosing",
        "guide/tenants",
        "guide/gateways",
        "guide/scripts",
        "guide/writing-scripts",
        "guide/http-api",
        "guide/agents",
        "guide/idempotency",
        "guide/testing",
        "guide/integrations",
        "guide/deploying",
        "guide/dashboard",
        "guide/monitoring",
        "guide/troubleshooting",
    ],
    "Coming from": [
        "coming-from/celery",
        "coming-from/apscheduler",
        "coming-from/procrastinate",
        "coming-from/temporal",
    ],
    "Explanation": ["policies", "architecture/index", "decisions/index", "benchmarks", "dependencies"],
    "Reference": [
        "guide/command-line",
        "reference/commands",
        "reference/json",
        "reference/python",
        "reference/openclaw",
        "reference/generated/changelog",
    ],
}

project = "Evertick"
author = "The Evertick authors"
project_copyright = author
version = release = evertick.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_site"]
nitpicky = False  # types of the standard library have no page here
keep_warnings = True

myst_heading_anchors = 4
smartquotes = False  # `--flag` stays as it is typed

autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"Evertick {release}"
html_copy_source = False
html_show_sphinx = False
html_static_path: list[str] = []


def write_generated_pages() -> None:
    """Write `reference/generated/`; a file that would not change is left alone, so that it is not built again."""
    pages = module_pages()
    pages["changelog.md"] = (DOCS.parent / "CHANGELOG.md").read_text("utf-8").replace("](docs/", "](../../")
    folder = DOCS / "reference" / "generated"
    folder.mkdir(exist_ok=True)
    for stale in folder.iterdir():
        if stale.name not in pages:
            stale.unlink()
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")


def module_pages() -> dict[str, str]:
    """The pages of the public modules. What two of them export is described by the first and named by the second."""
    pages: dict[str, str] = {}
    homes: dict[int, str] = {}
    for name in PUBLIC_MODULES:
        module = import_module(name)
        exported = {each: getattr(module, each) for each in getattr(module, "__all__", ())}
        for value in exported.values():
            if hasattr(value, "model_fields"):
                simplify_annotations(value)
        again = {each: homes[id(value)] for each, value in exported.items() if id(value) in homes}
        homes |= {id(value): name for value in exported.values() if id(value) not in homes}
        links = ", ".join(f"`{each}` (see [{home}]({home}.md))" for each, home in again.items())
        options = [f":exclude-members: {', '.join([*again, 'model_config'])}"]
        options += [":show-inheritance:"] if name == "evertick.errors" else []
        directive = "\n".join(["```{eval-rst}", f".. automodule:: {name}", *(f"   {each}" for each in options), "```"])
        directive += "".join(data_entry(name, each) for each, value in exported.items() if is_data(each, value))
        also = f"Also exported: {links}.\n\n" if again else ""
        pages[f"{name}.md"] = f"# {name}\n\n{directive}\n\n{also}"
    return pages


def simplify_annotations(model: type) -> None:
    """Leave of the types of a model's fields what a reader needs: not how they are written as JSON."""
    hints = get_type_hints(model)
    for each in model.__mro__:
        own = inspect.get_annotations(each)
        if own and each.__module__.startswith("evertick."):
            each.__annotations__ = {name: hints.get(name, annotation) for name, annotation in own.items()}


def is_data(name: str, value: object) -> bool:
    """Whether autodoc omits an exported name, because it is neither a class nor a function."""
    return not name.startswith("_") and not (inspect.isclass(value) or inspect.isroutine(value))


def data_entry(module: str, name: str) -> str:
    """The entry of a constant or an alias of types, with the docstring that stands below it where it is defined."""
    source = ast.parse(inspect.getsource(import_module(module)))
    imports = [node for node in ast.walk(source) if isinstance(node, ast.ImportFrom) and node.module]
    home = next((node.module for node in imports if any(each.name == name for each in node.names)), module)
    lines = ModuleAnalyzer.for_module(home or module).find_attr_docs().get(("", name), [])
    text = "\n".join(f"   {line}".rstrip() for line in as_rst(lines))
    return f"\n\n```{{eval-rst}}\n.. py:data:: {name}\n\n{text}\n```"


def read_source(_app: Any, docname: str, content: list[str]) -> None:
    """Add what only the site has: the navigation, and links to pages that lie elsewhere on the forge."""
    text = content[0]
    if docname == "index":
        text += "".join(toctree(title, pages) for title, pages in NAVIGATION.items())
    elif docname == "decisions/index":
        text += toctree("Decisions", sorted(path.stem for path in (DOCS / "decisions").glob("0*.md")))
    elif docname == "architecture/index":
        text += toctree("Architecture", ["base", "store", "engine", "app", "interfaces", "testing", "sandbox"])
    elif docname == "reference/commands":
        text = commands_page()
    elif docname == "reference/python":
        text += toctree("Modules", [f"generated/{name}" for name in PUBLIC_MODULES], ":maxdepth: 1")
    up = "../" * docname.count("/")
    content[0] = text.replace(f"]({up}../CHANGELOG.md", f"]({up}reference/generated/changelog.md")


def toctree(title: str, pages: list[str], option: str = ":hidden:") -> str:
    """A part of the navigation."""
    return "\n".join(["\n```{toctree}", option, f":caption: {title}", "", *pages, "```", ""])


def process_docstring(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with Markdown's backticks."""
    lines[:] = as_rst(lines)


def process_signature(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, arguments: str, returns: str) -> Any:
    """Write a signature as its caller sees it.

    Sphinx writes type variables as `~typing.~P`, and then cannot read the signature itself. A method that hands its
    work to a transaction returns what the work returns. How a model's field is written as JSON is not said.
    """
    if arguments is None:
        return None
    arguments = re.sub(r"[~\w.]*Annotated\[([^,]+), [^\]]*?\)\]", r"\1", arguments)
    if returns:
        returns = re.sub(r"^[~\w.]*Callable\[\[[~\w.]*Transaction\], (.+)\]$", r"\1", returns)
    if "~P" in arguments:
        arguments, returns = (text and plain_variables(text) for text in (arguments, returns))
    return arguments, returns


def process_overloads(_app: Any, _domain: str, _kind: str, content: Any) -> None:
    """The same for the signatures of overloads, which the event above does not show."""
    for signature in content.parent.findall(desc_signature):
        for text in list(signature.findall(nodes.Text)):
            if "~" in text:
                text.parent.replace(text, nodes.Text(plain_variables(text)))


def plain_variables(text: str) -> str:
    """Types by their names."""
    return re.sub(r"~(?:\w+\.)*~?(\w+)", r"\1", text)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    write_generated_pages()
    app.connect("source-read", read_source)
    app.connect("autodoc-process-docstring", process_docstring)
    app.connect("autodoc-process-signature", process_signature)
    app.connect("object-description-transform", process_overloads)
