"""Extras: what a part of the package needs beyond the bare installation."""


def missing_extra(error: ModuleNotFoundError, package: str, what: str, extra: str) -> ModuleNotFoundError:
    """The error to raise for a module that was not found: one that names the extra, if the module is of `package`."""
    if (error.name or "").partition(".")[0] != package:
        return error
    return ModuleNotFoundError(f"{what}: pip install 'evertick[{extra}]'", name=error.name)
