"""Loading an app: from what stands on the command line (`app.py`, `shop.main`, `app.py:orders`) to its `App`.

A file is imported under the name it has for Python: `app.py` is the module `app`, `shop/main.py` inside a package is
`shop.main`; the folder above goes to the front of the import path. So functions are called the same whether a worker,
`evertick dev` or a program of the user's imports them.
"""

import contextlib
import importlib
import linecache
import os
import re
import sys
import sysconfig
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from evertick.base.errors import Misuse, RegistrationError
from evertick.base.suggested_commands import DJANGO_SETTINGS
from evertick.cli.core import django_settings
from evertick.cli.core.exits import AppImportFailed

if TYPE_CHECKING:
    from evertick.app.app import App

FILE_DEFAULT: Final = "app.py"
NAME_SHOWN_MAX: Final = 80
SHOWN_MAX: Final = 5
_LIBRARIES: Final = frozenset(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_OURS: Final = Path(__file__).resolve().parents[2]


class AppNotFound(Misuse):
    """There is no app at the place that the command line names."""

    code = "app_not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The place of an app: the module `module` below the folder `root`, and the variable if it was given."""

    text: str
    root: Path
    module: str
    variable: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedApp:
    """An imported app whose functions were all checked."""

    target: Target
    app: "App"


def parse_target(text: str) -> Target:
    """Read `FILE`, `MODULE`, each with `:VARIABLE` or without. Raises AppNotFound if there is no such file."""
    try:
        return _parsed(text)
    except OSError as error:  # no file can have this name
        raise AppNotFound(f"there is no file {text[:NAME_SHOWN_MAX]}...: {error.strerror}") from error


def _parsed(text: str) -> Target:
    place, _, variable = text.partition(":")
    path = Path(place)
    is_file = path.suffix == ".py" or os.sep in place
    if not is_file and path.is_file():
        raise AppNotFound(f"{place} is not a Python file: its name does not end in .py")
    if is_file or (path.is_dir() and not (path / "__init__.py").exists() and not Path(f"{place}.py").exists()):
        if path.is_dir():
            raise AppNotFound(f"{place} is a folder; name the file that holds the app, such as {path / FILE_DEFAULT}")
        if not path.is_file():
            raise AppNotFound(f"there is no file {place}{_nearby(path)}")
        return _of_file(text, path.resolve(), variable or None)
    return Target(text=text, root=Path.cwd(), module=place, variable=variable or None)


def load_app(target: Target) -> LoadedApp:
    """Import the app and check all of its functions.

    Raises AppImportFailed, with the place, if the user's code fails; AppNotFound if the module has no app or several.
    """
    module = _import(target)
    app = _app_in(module, target)
    for function in app.functions:
        try:
            function.check()
        except RegistrationError as error:
            code = function.handler.__code__
            place = f"{shown_path(code.co_filename)}:{code.co_firstlineno}"
            raise AppImportFailed(f"{place}: {error}") from error
    django_settings.let_reconnect(app)
    return LoadedApp(target=target, app=app)


def local_files(error: BaseException | None = None) -> dict[str, int]:
    """The files of the imported modules that are the user's own, with their modification times in nanoseconds.

    A module whose import failed is not registered; its file is found through the traceback of `error`.
    """
    names = {getattr(module, "__file__", None) for module in tuple(sys.modules.values())}
    if error is not None:
        names |= {frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)}
        names.add(error.filename if isinstance(error, SyntaxError) else None)
    files = {}
    for name in names:
        if isinstance(name, str) and name.endswith(".py") and is_users(name):
            with contextlib.suppress(OSError):
                files[str(Path(name).resolve())] = Path(name).stat().st_mtime_ns
    return files


def is_users(file: str) -> bool:
    """Whether a file belongs to the user: not to Python, an installed library or Evertick."""
    above = Path(file).resolve().parents
    return _OURS not in above and not any(
        folder in _LIBRARIES or folder.name in ("site-packages", "dist-packages") for folder in above
    )


def place_of(error: BaseException) -> str | None:
    """The place in the user's code where an error was raised, `app.py:31`; None if it was raised elsewhere."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown_path(error.filename)}:{error.lineno}"
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if not file.startswith("<") and is_users(file):
            place = f"{shown_path(file)}:{line}"
    return place


def shown_path(file: str) -> str:
    """The shorter form of a path: relative to the working directory, or absolute."""
    try:
        return str(Path(file).resolve().relative_to(Path.cwd()))
    except ValueError:
        return file


# -- helpers


def _of_file(text: str, path: Path, variable: str | None) -> Target:
    root, names = path.parent, [path.stem]
    while (root / "__init__.py").is_file() and root.parent != root:
        names.insert(0, root.name)
        root = root.parent
    if names[-1] == "__init__" and len(names) > 1:
        names.pop()
    if not all(name.isidentifier() for name in names):
        raise AppNotFound(f"{path.name} cannot be imported under that name; use letters, digits and _")
    return Target(text=text, root=root, module=".".join(names), variable=variable)


def _import(target: Target) -> ModuleType:
    root = str(target.root)
    if root in sys.path:
        sys.path.remove(root)
    sys.path.insert(0, root)
    importlib.invalidate_caches()
    linecache.checkcache()
    django_settings.set_up()
    try:
        module = importlib.import_module(target.module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may even call sys.exit()
        if isinstance(error, ModuleNotFoundError) and error.name in (target.module, target.module.partition(".")[0]):
            raise AppNotFound(f"there is no module {target.module!r} in {target.root}") from error
        raise AppImportFailed(_failure(error, target)) from error
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).resolve().is_relative_to(target.root.resolve()):
        raise AppNotFound(
            f"{target.text}: Python has another module {target.module!r} ({file or 'built in'}); rename the file"
        )
    return module


def _failure(error: BaseException, target: Target) -> str:
    what = error.msg if isinstance(error, SyntaxError) else str(error)
    name = type(error).__name__
    if name == "ImproperlyConfigured" and not django_settings.is_named():
        what = f"Django has no settings; {DJANGO_SETTINGS}"
    return f"{place_of(error) or target.text}: {name}: {what}" if what else f"{place_of(error) or target.text}: {name}"


def _app_in(module: ModuleType, target: Target) -> "App":
    from evertick.app.app import App

    if target.variable is not None:
        value = getattr(module, target.variable, None)
        if not isinstance(value, App):
            found = "there is no such variable" if value is None else f"it is a {type(value).__name__}"
            raise AppNotFound(f"{target.text} does not name an App: {found}")
        return value
    named = {name: value for name, value in vars(module).items() if isinstance(value, App)}
    apps = {id(value): value for value in named.values()}
    if len(apps) == 1:
        return next(iter(apps.values()))
    if not apps:
        raise AppNotFound(f'{target.text} holds no App; write `app = App("name")` in it')
    choices = " or ".join(f"{target.text}:{name}" for name in sorted(named))
    raise AppNotFound(f"{target.text} holds {len(apps)} apps; name one: {choices}")


def _nearby(path: Path) -> str:
    """A hint with what the folder contains instead; if files create an App, with the one to name."""
    folder = path.parent
    files = sorted(file for file in folder.glob("*.py") if file.is_file()) if folder.is_dir() else []
    apps = [file.name for file in files if _makes_an_app(file)]
    if len(apps) == 1:
        return f"; name the one that holds the app: {folder / apps[0]}"
    if apps:
        return f"; name the one that holds your app: {' or '.join(str(folder / name) for name in apps[:SHOWN_MAX])}"
    return f"; its folder holds {', '.join(file.name for file in files[:SHOWN_MAX])}" if files else ""


def _makes_an_app(file: Path) -> bool:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return re.search(r"^\w+\s*(:.*)?=\s*(\w+\.)?App\(", file.read_text(encoding="utf-8"), re.MULTILINE) is not None
    return False
