"""What openstacksdk and keystoneauth raise, as one line a person can act on."""

from __future__ import annotations

import contextlib
import re
import urllib.parse
from collections.abc import Iterator
from typing import Any, Final

from keystoneauth1 import exceptions as auth
from openstack import exceptions as sdk
from openstack.config import loader

from nova_perf_tuning.specs import vocabulary
from nova_perf_tuning.validation.cloud import model

#: Connection settings where the user's clouds.yaml says nothing. Without a timeout a service that accepts a
#: connection and never answers would hold a command for ever; 503 is what a load balancer says in between.
DEFAULTS: Final = {"api_timeout": 60, "connect_retries": 2, "status_code_retries": 2}

#: HTTP status -> (what it means, what to do).
_STATUS: Final = {
    400: ("refused", ""),
    401: (
        "the credentials are refused",
        "check user, password, project and domain in clouds.yaml or the OS_* variables",
    ),
    403: ("not allowed", "it needs the role that the service's policy asks for, admin unless that was changed"),
    404: ("not found", ""),
    406: ("not supported", "the cloud's release is too old for this command"),
    409: ("conflict", "somebody else has changed it meanwhile, or it is there already; look and try again"),
    413: ("over a limit", "raise the project's quota or remove something"),
    429: ("over a limit", "wait and try again"),
    500: ("the service has failed", "its log says why"),
}
_UNAVAILABLE: Final = "the service is unavailable", "see whether it runs, then try again"


def fill_in(config: loader.OpenStackConfig) -> None:
    """Give ``config`` the settings of :data:`DEFAULTS` where the user has set none.

    The variables OS_* make a cloud of their own, in which openstacksdk writes None for whatever they do not say;
    ``config.defaults`` alone does not reach it.
    """
    clouds = config.cloud_config["clouds"]
    for one in (config.defaults, clouds.get(config.envvar_key), clouds.get("defaults")):
        if one is not None:
            one |= {key: value for key, value in DEFAULTS.items() if one.get(key) is None}


def line(error: BaseException) -> str | None:
    """Return what an exception of the cloud's libraries means and what to do; None for any other exception.

    What the cloud says about the reason is in it, made printable and cut at 300 characters.
    """
    if not isinstance(error, sdk.SDKException | auth.ClientException):
        return None
    status = getattr(error, "status_code", None) or getattr(error, "http_status", None)
    if isinstance(status, int) and status >= 400:
        return _http(error, status)
    for kind, meaning, remedy in (
        (
            auth.ConnectTimeout,
            "no answer in time",
            "see whether it runs; api_timeout of clouds.yaml sets the seconds",
        ),
        (auth.SSLError, "TLS failed", "see cacert and verify of clouds.yaml"),
        (auth.ConnectionError, "cannot connect", "see whether the service runs and whether its URL is right"),
        (auth.DiscoveryFailure, "no OpenStack API found", "see whether auth_url is right and the service runs"),
        (
            (auth.EndpointNotFound, sdk.EndpointNotFound, auth.EmptyCatalog),
            "the catalog has no such service",
            "see 'openstack catalog list' and the region",
        ),
        (
            (auth.AuthPluginException, auth.MissingAuthPlugin, sdk.ConfigException),
            "credentials are missing or incomplete",
            "give --os-cloud NAME of clouds.yaml or the OS_* variables",
        ),
    ):
        if isinstance(error, kind):
            return f"{meaning}: {_clean(str(error))}; {remedy}"
    return _clean(str(error)) or type(error).__name__


def told(error: BaseException) -> str:
    """Return :func:`line` for an exception of the cloud's libraries, else its own text as part of one line."""
    return line(error) or _clean(str(error))


@contextlib.contextmanager
def one_line(doing: str) -> Iterator[None]:
    """Turn what the cloud's libraries raise into :class:`model.CloudError`: doing, what it means, what to do."""
    try:
        yield
    except Exception as error:
        meant = line(error)
        if meant is None:
            raise
        raise model.CloudError(f"{doing}: {meant}") from error


def _http(error: Any, status: int) -> str:
    meaning, remedy = _STATUS.get(status, _UNAVAILABLE if status > 500 else ("the request failed", ""))
    said = _clean(
        _detail(error) or str(getattr(error, "details", None) or getattr(error, "message", None) or error)
    )
    where = []
    url = urllib.parse.urlsplit(getattr(error, "url", None) or "")
    if status >= 500 and url.netloc:
        # Without user, path and query, which may hold what is secret.
        where.append(f"{url.scheme}://{url.netloc.rpartition('@')[2]}")
    request = getattr(error, "request_id", None)
    if status >= 500 and request:
        where.append(f"request {vocabulary.shown(str(request))}")
    place = f" [{', '.join(where)}]" if where else ""
    return f"{meaning} ({status}){place}: {said}" + (f"; {remedy}" if remedy else "")


def _detail(error: Any) -> str:
    """Return the reason as Placement words it, in a list that openstacksdk does not look into."""
    try:
        return "; ".join(str(one["detail"]) for one in error.response.json()["errors"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return ""


def _clean(text: str) -> str:
    """Return what a service said as part of one line, without what the HTTP library says once more."""
    text = re.split(r":? \(?HTTPS?ConnectionPool", text)[0]
    return vocabulary.shown(" ".join(text.split()), 300).rstrip(".; ")
