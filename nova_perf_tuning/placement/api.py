# SPDX-License-Identifier: Apache-2.0
"""Calls OpenStack's APIs with the retries that a long run needs; errors are one line to act on."""

import contextlib
import dataclasses
import json
import re
import threading
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from keystoneauth1 import exceptions as auth
from openstack import connection
from openstack import exceptions as sdk
from openstack.config import loader

from nova_perf_tuning import errors
from nova_perf_tuning.specs import vocabulary

_Answer = TypeVar("_Answer")

#: How long an API may fail with 5xx or not answer until the pair is given up, in seconds.
RETRY_FOR_S: Final = 120.0
_TRANSIENT_STATUS: Final = frozenset({429, 500, 502, 503, 504})

#: What a call to an API can raise; everything else is a fault of this program.
ERRORS: Final = (sdk.SDKException, auth.ClientException)

#: Connection settings where the user's clouds.yaml says nothing. Without a timeout a service that
#: accepts a connection and never answers would hold a command for ever; 503 is what a load
#: balancer says in between.
DEFAULTS: Final = {"api_timeout": 60, "connect_retries": 2, "status_code_retries": 2}


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """This process's right to a run, as :meth:`.run_store.RunStore.lease` gives it.

    :ivar token: on each stack that this process makes for the run, and on no other.
    :ivar check: called before each call to the cloud with whether that changes something there. It
        raises a :class:`~nova_perf_tuning.errors.PerfTuningError` where another process has the
        run, or may have it.
    :ivar had_owner: another process had the run before, and may still make a stack of it.
    """

    run_id: str
    token: str
    check: Callable[[bool], None]
    had_owner: bool


class Interrupted(Exception):
    """The run is to end; raised out of a wait or a retry."""


class ApiError(sdk.SDKException):
    """An API failed for longer than retries bridge; one printable line."""


class Api:
    """The APIs of one cloud for several threads: every thread has a connection of its own.

    :ivar stop: set when the run is to end; waits and retries then raise :class:`Interrupted`.
    :ivar lease: of the run in whose name the APIs are asked; None: of none.
    """

    def __init__(
        self, connect: Callable[[], connection.Connection], retry_for_s: float = RETRY_FOR_S
    ) -> None:
        """Connect nothing yet; ``connect`` is called once for each thread."""
        self._connect = connect
        self.retry_for_s = retry_for_s
        self._local = threading.local()
        self.stop = threading.Event()
        self.lease: Lease | None = None

    @property
    def connection(self) -> connection.Connection:
        if not hasattr(self._local, "connection"):
            self._local.connection = self._connect()
        cloud: connection.Connection = self._local.connection
        return cloud

    def call(
        self,
        question: Callable[[], _Answer],
        retry_for_s: float | None = None,
        *,
        changes: bool = False,
    ) -> _Answer:
        """Return what ``question`` returns; after 429, 5xx and lost connections it is asked again.

        Each time the lease is checked before.

        :param retry_for_s: None: for :attr:`retry_for_s`.
        :param changes: it makes or removes something.
        :raises PerfTuningError: another process has the run, see :class:`.api.Lease`.
        :raises ApiError: it failed for too long.
        :raises openstack.exceptions.SDKException, keystoneauth1.exceptions.ClientException: it was
            refused.
        :raises Interrupted: the run is to end.
        """
        import tenacity  # an extra: commands that have their help without it import this module

        patience_s = self.retry_for_s
        if retry_for_s is not None:
            patience_s = retry_for_s
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(is_transient),
            wait=tenacity.wait_random_exponential(multiplier=0.5, max=10),
            stop=tenacity.stop_after_delay(patience_s),
            sleep=self.sleep,
            reraise=True,
        )

        def asked() -> _Answer:
            if self.lease is not None:
                self.lease.check(changes)
            return question()

        try:
            return retrying(asked)
        except Exception as error:
            if is_transient(error):
                waited = f"the API failed for {patience_s:.0f} s: " if patience_s else ""
                raise ApiError(f"{waited}{text_of(error)}") from error
            raise

    def patient(self) -> "Api":
        """Return the same APIs for cleaning up: an interruption does not end its calls."""
        other = Api(self._connect, self.retry_for_s)
        other._local = self._local
        other.lease = self.lease
        return other

    def sleep(self, seconds: float) -> None:
        """Wait; :raises Interrupted: the run is to end."""
        if self.stop.wait(seconds):
            raise Interrupted


def fill_in(config: loader.OpenStackConfig) -> None:
    """Give ``config`` the settings of :data:`DEFAULTS` where the user has set none.

    The variables OS_* make a cloud of their own, in which openstacksdk writes None for whatever
    they do not say; ``config.defaults`` alone does not reach it.
    """
    clouds = config.cloud_config["clouds"]
    for cloud in (config.defaults, clouds.get(config.envvar_key), clouds.get("defaults")):
        if cloud is None:
            continue
        for key, value in DEFAULTS.items():
            if cloud.get(key) is None:
                cloud[key] = value


def is_transient(error: BaseException) -> bool:
    """Return whether the same call may succeed a moment later."""
    status = http_status(error)
    if status is not None:
        return status in _TRANSIENT_STATUS
    # Where auth_url names no version, whatever keeps Keystone from answering is a failure of
    # discovery. Whether a URL is right has shown when the command logged in.
    # An answer that is no JSON is a proxy's page, or is cut off.
    passing = auth.ConnectionError | auth.DiscoveryFailure | json.JSONDecodeError
    return isinstance(error, passing) and not isinstance(error, auth.SSLError)


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status of a library's exception, or None; 401: with a new token, too."""
    status = getattr(error, "status_code", None) or getattr(error, "http_status", None)
    return status if isinstance(status, int) and isinstance(error, ERRORS) else None


def text_of(error: BaseException) -> str:
    # The HTTP library says everything once more.
    said = re.split(r":? \(?HTTPS?ConnectionPool", str(error))[0]
    return vocabulary.shown(" ".join(said.split()), 400).rstrip(".; ") or type(error).__name__


@contextlib.contextmanager
def one_line(doing: str) -> Iterator[None]:
    """Turn exceptions of the cloud's libraries into :class:`~nova_perf_tuning.errors.CloudError`.

    :param doing: what was tried, for the message.
    """
    try:
        yield
    except ERRORS as error:
        raise errors.CloudError(f"{doing}: {text_of(error)}") from error
