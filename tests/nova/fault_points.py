# SPDX-License-Identifier: Apache-2.0
"""Every function of ours that runs in nova-compute, found by looking, each ready to fail."""

import contextlib
import functools
import importlib
import inspect
import pkgutil

import fixtures

import nova_perf_tuning.guest
import nova_perf_tuning.nova
import nova_perf_tuning.specs
from nova_perf_tuning.nova import driver, error_policy, migration

#: What nova-compute has of us in its process.
PACKAGES = (nova_perf_tuning.nova, nova_perf_tuning.guest, nova_perf_tuning.specs)

#: What other services of Nova load instead.
ELSEWHERE = ("extra_specs", "weigher", "metadefs")

#: The guard itself: what keeps a fault from Nova cannot be kept from it.
GUARD = frozenset(
    f"nova.error_policy.{name}" for name, value in vars(error_policy).items() if callable(value)
)


def overrides(cls):
    """Return the names of what a class defines in place of its Nova base class's."""
    return {
        name
        for name, value in vars(cls).items()
        if inspect.isfunction(value) and any(name in vars(base) for base in cls.__mro__[1:-1])
    }


#: What Nova calls: the overrides, what stands in for Nova's guest object, and for the rendering of a device.
ENTRIES = frozenset(
    {
        *(
            f"nova.driver.PerfTuningLibvirtDriver.{name}"
            for name in overrides(driver.PerfTuningLibvirtDriver)
        ),
        *(f"nova.driver.PerfVIFDriver.{name}" for name in overrides(driver.PerfVIFDriver)),
        *(
            f"nova.migration.MigratingGuest.{name}"
            for name in ("__init__", *migration.MigratingGuest.__dict__)
        ),
        *(
            f"nova.driver.PerfTuningLibvirtDriver.{name}"
            for name in ("_tune", "_tuned", "_mistake", "_destination_xml")
        ),
    }
)


def modules():
    """Return all modules of our packages."""
    every = []
    for package in PACKAGES:
        every.append(package)
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if info.name.rpartition(".")[2] not in ELSEWHERE:
                every.append(importlib.import_module(info.name))
    return every


def functions():
    """Yield (name, owner, attribute, function) of each function and method that is written out in our packages."""
    for module in modules():
        stem = module.__name__.removeprefix("nova_perf_tuning.")
        for name, value in list(vars(module).items()):
            if getattr(value, "__module__", None) != module.__name__:
                continue
            if inspect.isclass(value):
                for attribute, member in list(vars(value).items()):
                    # dataclasses write methods of their own
                    if (
                        inspect.isfunction(member)
                        and member.__code__.co_filename == module.__file__
                    ):
                        yield f"{stem}.{name}.{attribute}", value, attribute, member
            elif inspect.isfunction(inspect.unwrap(value)) and not inspect.isgeneratorfunction(
                value
            ):
                yield f"{stem}.{name}", module, name, value


def forget():
    """Empty every cache of ours, so that a call runs through all that a first one does."""
    for module in modules():
        for value in list(vars(module).values()):
            for cached in (value, getattr(value, "__wrapped__", None)):
                if hasattr(cached, "cache_clear"):
                    cached.cache_clear()


class Injected(RuntimeError):
    """The fault."""


class FaultPoints(fixtures.Fixture):
    """While in use, notes what is called and fails at the named point.

    :ivar called: names of functions called since the last :meth:`watched`.
    :ivar arguments: name of a function that Nova calls -> arguments of its last call.
    """

    def _setUp(self):
        self.names = set()
        self.called = {}
        self.arguments = {}
        self._armed = frozenset()
        for name, owner, attribute, function in functions():
            self.names.add(name)
            if name not in GUARD:
                self.useFixture(
                    fixtures.MonkeyPatch(self._path(owner, attribute), self._wrap(name, function))
                )

    @staticmethod
    def _path(owner, attribute):
        module = (
            owner.__name__
            if inspect.ismodule(owner)
            else f"{owner.__module__}.{owner.__qualname__}"
        )
        return f"{module}.{attribute}"

    def _wrap(self, name, function):
        @functools.wraps(function)
        def called(*args, **kwargs):
            self.called[name] = None
            if name in ENTRIES:
                self.arguments[name] = (args, kwargs)
            elif name in self._armed:
                raise Injected(f"in {name}")
            return function(*args, **kwargs)

        return called

    @contextlib.contextmanager
    def watched(self):
        """Give a list that has, at the end, what was called meanwhile and can fail, in order of first calls."""
        self.called = {}
        forget()
        names = []
        yield names
        names += [name for name in self.called if name not in ENTRIES]

    @contextlib.contextmanager
    def failing(self, *names):
        """Make functions fail; all that there are when none is named."""
        forget()
        self._armed = frozenset(names) or self.names - ENTRIES - GUARD
        try:
            yield
        except BaseException as error:
            error.add_note(f"while failing: {names or 'everything'}")
            raise
        finally:
            self._armed = frozenset()
