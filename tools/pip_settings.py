# SPDX-License-Identifier: Apache-2.0
"""Translates pip's configuration into environment variables of uv, which does not read it.

pip config list | pip_settings.py

A line "NAME=value" for each; NO_INDEX=1 stands for the option --no-index of uv, which has no variable. Exits 1 and
names the first setting that uv would not follow: then pip has to be used.
"""

import ast
import os
import pathlib
import sys
from collections.abc import Mapping

#: A later section wins, as in "pip install".
_SECTIONS = ("global", "install", ":env:")

#: One value.
_SAME = {
    "index-url": "UV_DEFAULT_INDEX",
    "timeout": "UV_HTTP_TIMEOUT",
    "retries": "UV_HTTP_RETRIES",
    "client-cert": "SSL_CLIENT_CERT",
    "cert": "SSL_CERT_FILE",
}

#: Several values with blanks between them.
_LISTS = {"extra-index-url": "UV_INDEX", "trusted-host": "UV_INSECURE_HOST"}

_OTHER_NAMES = {"pypi-url": "index-url", "default-timeout": "timeout"}

#: They change how pip works or what it prints, not which packages it takes and from where.
_OF_PIP_ALONE = {
    "break-system-packages", "cache-dir", "disable-pip-version-check", "exists-action", "log", "no-color",
    "no-input", "no-python-version-warning", "no-warn-conflicts", "no-warn-script-location", "progress-bar",
    "quiet", "require-virtualenv", "root-user-action", "verbose",
}  # fmt: skip


class UnknownSetting(Exception):
    """A setting without a counterpart."""


def settings(listed: str) -> dict[str, str]:
    """Return pip's settings for "pip install" from what "pip config list" prints."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        text = str(ast.literal_eval(value)).strip()
        if section in found and text:
            found[section][_OTHER_NAMES.get(name, name)] = text
    return {name: value for section in _SECTIONS for name, value in found[section].items()}


def variables(configured: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return what uv is to be started with.

    :param environment: what uv would be started with otherwise; its own variables there have precedence.
    :raises UnknownSetting: uv would not do what pip does.
    """
    result: dict[str, str] = {}
    for name, value in configured.items():
        if name in _SAME:
            result[_SAME[name]] = value
        elif name in _LISTS:
            result[_LISTS[name]] = " ".join(value.split())
        elif name == "find-links":
            result["UV_FIND_LINKS"] = ",".join(filter(None, map(_place, value.split())))
        elif name == "proxy":
            proxy = value if "://" in value else f"http://{value}"
            result |= {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy}
        elif name == "no-index":
            result["NO_INDEX"] = (
                "1" if value.lower() in ("1", "y", "yes", "t", "true", "on") else ""
            )
        elif name == "no-cache-dir":
            result["UV_NO_CACHE"] = "1"  # pip takes any value for yes
        elif name not in _OF_PIP_ALONE:
            raise UnknownSetting(name)
    if "UV_INDEX" in result:
        # pip takes the best version of all indexes, uv by itself that of the first one which has the package.
        result["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    result |= _certificates(result.get("SSL_CERT_FILE"), environment)
    return {
        name: value
        for name, value in result.items()
        if value and not (name.startswith("UV_") and environment.get(name))
    }


def _place(link: str) -> str:
    """Return a place of find-links for uv, empty for a directory that is missing, where pip only warns."""
    if "://" in link:
        return link
    path = pathlib.Path(link).expanduser().absolute()
    return str(path) if path.exists() else ""


def _certificates(configured: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    bundle = (
        configured or environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE")
    )
    if bundle and os.path.isdir(bundle):
        return {"SSL_CERT_FILE": "", "SSL_CERT_DIR": bundle}
    if bundle:
        return {"SSL_CERT_FILE": bundle}
    # Debian's pip and every pip since 24.2 trust what the machine trusts.
    return {"UV_SYSTEM_CERTS": "1"}


def main() -> int:
    try:
        found = variables(settings(sys.stdin.read()), os.environ)
    except UnknownSetting as error:
        print(error, file=sys.stderr)
        return 1
    for name, value in found.items():
        print(f"{name}={value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
