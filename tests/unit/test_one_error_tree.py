"""Every error that the product raises on purpose stands below one root, which its callers may catch."""

import importlib
import inspect
import pkgutil

import landed
import landed_services
from landed.core.errors import LandedError
from landed.sdk import errors

NOT_FOR_CALLERS = {
    "landed.testing.cases.processes.GaveUp": "ends a played caller as a cancellation does; `except Exception` must not stop it",
    "landed.testing.cases.provider.ProviderError": "a played provider's; the product takes it as any stranger's error",
    "landed.testing.cases.world.NotSupported": "the runner's own way to leave a step; it becomes a line `not supported`",
    "landed.wire.straight.Unusual": "bytes that the generated code leaves to the library; the codec catches it",
    "landed_services.cli._exit.CommandFailed": "how a command ends; it never leaves the command line",
}


def test_every_error_stands_below_one_root() -> None:
    outside = set()
    for package in (landed, landed_services):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.endswith("__main__"):
                continue
            module = importlib.import_module(found.name)
            for name, value in vars(module).items():
                own = inspect.isclass(value) and value.__module__ == module.__name__
                if own and issubclass(value, BaseException) and not issubclass(value, LandedError) and not name.startswith("_"):
                    outside.add(f"{module.__name__}.{name}")
    assert outside == set(NOT_FOR_CALLERS)


def test_the_tree_is_drawn_with_every_branch() -> None:
    drawn = errors.__doc__ or ""
    for branch in LandedError.__subclasses__():
        if branch.__module__.startswith(("landed.", "landed_services.")) and not branch.__name__.startswith("_"):
            assert branch.__name__ in drawn, branch
