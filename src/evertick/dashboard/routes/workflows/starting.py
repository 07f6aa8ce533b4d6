"""Starting a run: of a workflow, or like one that there was."""

import json
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from evertick.app.bodies import Body
from evertick.app.functions.function import Workflow
from evertick.app.functions.options import OnConflict
from evertick.base.errors import AlreadyExists, EvertickError, FunctionNotFound, InvalidArguments, Misuse
from evertick.base.escaping import json_text
from evertick.base.records.access import Scope
from evertick.base.records.workflows import from_words, word_of
from evertick.dashboard.forms.signature import Signature, signature_of
from evertick.dashboard.forms.values import json_field
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.dashboard.workflow_names import names_for
from evertick.server.routes import workflows as api

routes = page_routes()


class Asked(Body):
    """Of which workflow a run is to be started, or like which run."""

    workflow: str = ""
    like: str | None = None
    tz: str | None = None


@routes.asks("/workflow-start", Scope.EDIT)
async def show_start(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """Ask for the workflow and its arguments."""
    if page.typed is not None:
        return _start(page, page.typed)
    form = Form([("workflow", asked.workflow)])
    if asked.like is not None:
        run = await page.access.workflows.get(asked.like)
        attributes = "\n".join(f"{name}={word_of(value)}" for name, value in run.attributes.items())
        signature = _signature(page, run.function)
        args = [("args", json.dumps(run.args, indent=2))] if signature is None else signature.fill(run.args)
        form = Form([("workflow", run.function), *args, ("attributes", attributes)])
    return _start(page, form)


@routes.form("/workflow-start", Scope.EDIT)
async def start(page: Shown) -> Response:
    """Start a run; or show the arguments of another workflow, or of this one in another way."""
    form = await page.form()
    signature = _signature(page, form["workflow"])
    if form["choose"] or (signature is not None and signature.switch(form)):
        return _start(page, form)
    args, attributes = _args(page, form, signature), _attributes(form)
    if form.errors:
        return _start(page, form, status=422)
    new = api.NewRun(
        function=form["workflow"], args=args or {}, key=form.given("key"), priority=None, attributes=attributes or None,
        on_conflict=OnConflict.ERROR if form.given("key") else None,
    )  # fmt: skip
    try:
        done = await api.start_workflow(page.request, page.known, new)
    except FunctionNotFound as error:
        form.fail("workflow", str(error))
    except InvalidArguments as error:
        form.fail("args", str(error))
    except AlreadyExists as error:
        form.fail("key", str(error))
    except EvertickError as error:
        form.field_of(error, {"attribute": "attributes", "a key": "key"})
    else:
        new_id = json.loads(bytes(done.body))["id"]
        return page.done(page.url("workflows", new_id), f"Started {new_id}.")
    return _start(page, form, status=422)


def _signature(page: Page, name: str) -> Signature | None:
    """The fields for the arguments of a workflow; None for one that the visitor may not start, or that is not known."""
    try:
        function = page.known.function(name) if name else None
    except FunctionNotFound:
        return None
    return signature_of(function) if isinstance(function, Workflow) else None


def _args(page: Page, form: Form, signature: Signature | None) -> Any:
    """The arguments that were typed; None if there are none, or if something is wrong with them or the workflow."""
    if not form["workflow"]:
        form.fail("workflow", "Choose a workflow.")
    if signature is not None:
        return signature.read(form, page.times)
    args = json_field(form, "args")
    if args is not None and not isinstance(args, dict):
        form.fail("args", "Arguments are an object: a name and a value for each parameter.")
    return args


def _lines(form: Form) -> list[str]:
    """The attributes that were typed, one on each line."""
    return [line.strip() for line in form["attributes"].splitlines() if line.strip()]


def _attributes(form: Form) -> dict[str, Any]:
    try:
        return from_words(_lines(form))
    except Misuse as error:
        form.fail("attributes", f"One on each line: {error}.")
        return {}


def _start(page: Page, form: Form, *, status: int = 200) -> Response:
    names, signature, read = names_for(page.known), _signature(page, form["workflow"]), page.judged(form)
    args, key = _args(page, read, signature), read.given("key")
    _attributes(read)
    line = page.command(
        "workflow", "start", read["workflow"], json=json_text(args) if args else None, id=key,
        on_conflict=OnConflict.ERROR.value if key else None, attribute=_lines(read),
    )  # fmt: skip
    return page.render(
        "workflows/start.html", status=status, form=form, names=names, signature=signature,
        commands=page.same(read, line),
    )  # fmt: skip
