"""Calls to OpenStack's APIs with the retries that a long run needs.

Tokens that expire are no matter: keystoneauth fetches a new one when a service answers 401, and repeats the call.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import tenacity
from keystoneauth1 import exceptions as keystone_errors
from openstack import connection
from openstack import exceptions as sdk_exceptions

from nova_perf_tuning.validation.cloud import sdk_errors

_Answer = TypeVar("_Answer")

#: How long an API may fail with 5xx or not answer until the pair is given up, in seconds.
RETRY_FOR_S = 120.0
_TRANSIENT_STATUS = frozenset({429, 500, 502, 503, 504})

#: What a call to an API can raise; everything else is a fault of this program.
ERRORS = (sdk_exceptions.SDKException, keystone_errors.ClientException)


class Interrupted(Exception):
    """The run is to end; raised out of a wait or a retry."""


class ApiError(sdk_exceptions.SDKException):
    """An API refused, or failed for longer than retries bridge; one printable line."""


class UnreadableError(sdk_exceptions.SDKException):
    """An answer that the service itself does not give, such as a proxy's page with status 200."""


def is_transient(error: BaseException) -> bool:
    """Return whether the same call may succeed a moment later."""
    status = http_status(error)
    if status is not None:
        return status in _TRANSIENT_STATUS
    # Where auth_url names no version, whatever keeps Keystone from answering is a failure of discovery. Whether a
    # URL is right has shown when the command logged in.
    passing = keystone_errors.ConnectionError | keystone_errors.DiscoveryFailure | UnreadableError
    return isinstance(error, passing) and not isinstance(error, keystone_errors.SSLError)


def credentials_refused(error: BaseException) -> bool:
    """Return whether a service, or Keystone itself, does not accept who we are: 401 with a new token, too."""
    return http_status(error) == 401


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status that an exception of the cloud's libraries stands for, None if for none."""
    if isinstance(error, sdk_exceptions.HttpException):
        return error.status_code
    return error.http_status if isinstance(error, keystone_errors.HttpError) else None


def read(question: Callable[[], _Answer]) -> _Answer:
    """Return what a method of openstacksdk makes of an answer, which it takes to be what it should be.

    :raises UnreadableError: it was something else.
    """
    try:
        return question()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnreadableError(f"the answer is not made as it should be ({type(error).__name__})") from error


class Api:
    """The APIs of one cloud for several threads: every thread has a connection of its own.

    :ivar stop: set when the run is to end; waits and retries then raise :class:`Interrupted`.
    """

    def __init__(self, connect: Callable[[], connection.Connection], retry_for_s: float = RETRY_FOR_S) -> None:
        """Connect nothing yet; ``connect`` is called once for each thread."""
        self._connect = connect
        self._retry_for_s = retry_for_s
        self._local = threading.local()
        self.stop = threading.Event()

    @property
    def connection(self) -> connection.Connection:
        """This thread's connection."""
        if not hasattr(self._local, "connection"):
            self._local.connection = self._connect()
        found: connection.Connection = self._local.connection
        return found

    def call(self, function: Callable[..., _Answer], *arguments: Any, **named: Any) -> _Answer:
        """Call ``function``; 429, 5xx, lost connections and no real answer are tried again for
        :data:`RETRY_FOR_S`.

        :raises ApiError: it failed for too long.
        :raises openstack.exceptions.SDKException, keystoneauth1.exceptions.ClientException: it was refused.
        :raises Interrupted: the run is to end.
        """
        left_s = getattr(self._local, "deadline", math.inf) - time.monotonic()
        retry_for_s = max(0.0, min(self._retry_for_s, left_s))
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(is_transient),
            wait=tenacity.wait_random_exponential(multiplier=0.5, max=10),
            stop=tenacity.stop_after_delay(retry_for_s),
            sleep=self.sleep,
            reraise=True,
        )
        try:
            return retrying(function, *arguments, **named)
        except Exception as error:
            if is_transient(error):
                raise ApiError(f"the API failed for {retry_for_s:.0f} s: {sdk_errors.told(error)}") from error
            raise

    @contextlib.contextmanager
    def until(self, deadline: float) -> Iterator[None]:
        """Let no call of this thread be tried again after a moment of the monotonic clock."""
        self._local.deadline = deadline
        try:
            yield
        finally:
            del self._local.deadline

    def read(self, question: Callable[[], _Answer]) -> _Answer:
        """Call :func:`read`, and see :meth:`call`: what is no real answer is asked for again."""
        return self.call(lambda: read(question))

    def patient(self) -> Api:
        """Return the same APIs for cleaning up: an interruption does not end its calls."""
        other = Api(self._connect, self._retry_for_s)
        other._local = self._local
        return other

    def sleep(self, seconds: float) -> None:
        """Wait, in seconds.

        :raises Interrupted: the run is to end.
        """
        if self.stop.wait(seconds):
            raise Interrupted

    def wait_until(self, question: Callable[[], bool], deadline: float, interval_s: float) -> bool:
        """Ask until the answer is True or the monotonic clock passes ``deadline``; return the last answer.

        :raises Interrupted: the run is to end.
        """
        while not question():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            self.sleep(min(interval_s, left_s))
        return True
