# SPDX-License-Identifier: Apache-2.0
"""Keystone, Nova, Placement, Glance and Heat on loopback, as far as commands use them, for the real openstacksdk.

Shapes, codes and messages are those of Nova 34, Placement 16, Glance 33 and Keystone 30. What a real cloud does
with all this is in ``tests/cloud``; here are the faults that cannot be had from one on demand.
"""

import collections
import http.server
import json
import re
import threading
import urllib.parse
import uuid

import fixtures
import tenacity

from nova_perf_tuning.specs import vocabulary

PCI_POLICIES = ("required", "preferred", "legacy", "socket")
REFUSED = "The request you have made requires authentication."


class QuietServer(http.server.ThreadingHTTPServer):
    """Connections that break off are what tests want; a trace of it would land in the stderr of a later test."""

    def handle_error(self, request, client_address):
        pass


class Answer(Exception):
    """An HTTP answer other than what the route returns.

    :ivar done: the service has done what it was asked for all the same. :ivar missing: bytes that never come.
    """

    def __init__(self, status, body=b"", kind="application/json", *, done=False, missing=0):
        super().__init__(status)
        self.status, self.kind, self.done, self.missing = status, kind, done, missing
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()


def nova_error(status, name, message):
    """Return an answer as Nova's API words its faults."""
    return Answer(status, {name: {"code": status, "message": message}})


class ApiServer(fixtures.Fixture):
    """All services below one port.

    :ivar faults: (pattern of the method, pattern of the path, answer or None) consumed from the front, one for
        each request that fits; None: no answer at all until the fixture is removed.
    :ivar requests: (method, path with query, microversion, JSON body) of everything asked but Keystone.
    """

    def __init__(self):
        self.flavors, self.images, self.services, self.providers = {}, {}, {}, {}
        self.aggregates, self.servers = {}, {}
        self.mirrors = self.isolating = (
            True  # Nova tells Placement of aggregates; its scheduler asks for them
        )
        self.traits = {"COMPUTE_NODE"}
        self.stacks, self.stuck = (
            {},
            set(),
        )  # name -> stack; names of stacks that cannot be deleted
        self.made, self.events = [], []  # requests for stacks; events of every stack
        self.status = "CREATE_IN_PROGRESS", ""  # of every stack that is made, and the reason
        self.deleted = lambda name: (
            None
        )  # returns a stack's new status and reason, None: it is gone
        self.faults, self.requests = [], []
        self.admin = True
        self.without = ()  # services left out of the catalog
        self.checks = True  # this package's validators are in Nova's API
        self.before_traits_put = None  # called before a write of traits: another writer

    def _setUp(self):
        soon = tenacity.wait_fixed(0.01)
        self.useFixture(
            fixtures.MockPatchObject(tenacity, "wait_random_exponential", lambda **_: soon)
        )
        self.over = threading.Event()
        self.lock = threading.RLock()
        server = QuietServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"cloud": self}))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.addCleanup(self.over.set)
        self.url = f"http://127.0.0.1:{server.server_port}"

    # ---- what there is ----

    def add_flavor(self, name, vcpus=4, ram=4096, **specs):
        """Add a flavor; ``perf_vif_queues`` stands for ``perf:vif_queues``."""
        specs = {key.replace("_", ":", 1): value for key, value in specs.items()}
        return self.new_flavor({"name": name, "vcpus": vcpus, "ram": ram, "disk": 0}, specs)

    def new_flavor(self, fields, specs=()):
        """Make a flavor as POST /flavors does."""
        flavor = {
            "id": fields.get("id") or str(uuid.uuid4()),
            "name": fields["name"],
            "vcpus": fields["vcpus"],
            "ram": fields["ram"],
            "disk": fields["disk"],
            "OS-FLV-EXT-DATA:ephemeral": 0,
            "OS-FLV-DISABLED:disabled": False,
            "os-flavor-access:is_public": fields.get("os-flavor-access:is_public", True),
            "extra_specs": dict(specs),
        }
        self.flavors[flavor["id"]] = flavor
        return flavor

    def add_image(self, name, **properties):
        """Add an image with custom properties, which Glance shows flat beside its own."""
        image = {"id": str(uuid.uuid4()), "name": name, "status": "active"}
        image |= {"size": 1 << 24, "owner": "p", **properties}
        self.images[image["id"]] = image
        return image

    def add_host(self, name, traits=(), hypervisor=True, free=(), topology=None, qemu=0, **fields):
        """Add a compute host with its service, hypervisor and resource provider; return the provider.

        :param free: resource class -> what is free of it; :param topology: of its CPUs, as Nova shows it.
        """
        provider = {
            "uuid": str(uuid.uuid4()),
            "name": name,
            "generation": 3,
            "traits": {"COMPUTE_NODE", *traits},
        }
        provider |= {"free": dict(free), "topology": topology, "aggregates": set()}
        self.traits |= set(traits)
        self.providers[provider["uuid"]] = provider
        service = {"id": str(uuid.uuid4()), "binary": "nova-compute", "host": name, "zone": "nova"}
        service |= {"status": "enabled", "state": "up", "disabled_reason": None, **fields}
        self.services[service["id"]] = {
            "service": service,
            "provider": provider["uuid"] if hypervisor else None,
        }
        self.services[service["id"]]["qemu"] = qemu
        return provider

    def service(self, host):
        """Return the service of a host as Nova shows it."""
        return next(
            entry["service"]
            for entry in self.services.values()
            if entry["service"]["host"] == host
        )

    # ---- Keystone ----

    def identity(self, method, path, _query, body, _headers):
        if path == "/v3/auth/tokens" and method == "POST":
            user = body["auth"]["identity"]["password"]["user"]
            if user["password"] != "secret":
                raise Answer(
                    401, {"error": {"code": 401, "title": "Unauthorized", "message": REFUSED}}
                )
            return 201, {"token": self.token(user["name"])}
        link = [{"rel": "self", "href": f"{self.url}/identity/v3/"}]
        version = {
            "id": "v3.14",
            "status": "stable",
            "updated": "2020-04-07T00:00:00Z",
            "links": link,
        }
        return 200, {"version": version} if path.startswith("/v3") else {
            "versions": {"values": [version]}
        }

    def token(self, user):
        catalog = {
            "identity": "/identity",
            "compute": "/compute/v2.1",
            "placement": "/placement",
            "image": "/image",
            "orchestration": "/orchestration/v1/p",
        }
        return {
            "methods": ["password"],
            "user": {"id": "u", "name": user, "domain": {"id": "default", "name": "Default"}},
            "project": {
                "id": "p",
                "name": "project",
                "domain": {"id": "default", "name": "Default"},
            },
            "roles": [{"id": "r", "name": "admin" if self.admin else "member"}],
            "expires_at": "2099-11-21T12:00:00.000000Z",
            "catalog": [
                {
                    "type": kind,
                    "endpoints": [
                        {"interface": "public", "region_id": "RegionOne", "url": self.url + path}
                    ],
                }
                for kind, path in catalog.items()
                if kind not in self.without
            ],
        }

    # ---- Nova ----

    def compute(self, method, path, query, body, headers):
        path = path.removeprefix("/v2.1")
        if path in ("", "/"):
            link = [{"rel": "self", "href": f"{self.url}/compute/v2.1/"}]
            shown = {
                "id": "v2.1",
                "status": "CURRENT",
                "version": "2.103",
                "min_version": "2.1",
                "links": link,
            }
            return 200, {"version": shown}
        version = headers.get("OpenStack-API-Version", "compute 2.1").removeprefix("compute ")
        microversion = tuple(map(int, version.split(".")))
        if path.startswith("/flavors"):
            return self.flavor_api(method, path, body, microversion)
        if match := re.fullmatch("/servers/([^/]+)/action", path):
            return 200, {"output": f"Kernel panic of {match[1]}"}
        if not self.admin:
            rule = (
                "os-services:list"
                if path.startswith("/os-services")
                else "os-hypervisors:list-detail"
            )
            raise nova_error(
                403, "forbidden", f"Policy doesn't allow os_compute_api:{rule} to be performed."
            )
        if path == "/os-services":
            shown = [entry["service"] for entry in self.services.values()]
            wanted = query.get("binary")
            return 200, {
                "services": [entry for entry in shown if wanted in (None, entry["binary"])]
            }
        if match := re.fullmatch("/os-services/([^/]+)", path):
            service = self.services[match[1]]["service"]
            service |= {"disabled_reason": None} if body["status"] == "enabled" else {}
            service |= body
            return 200, {"service": service}
        if path.startswith("/os-aggregates"):
            return self.aggregate_api(method, path, body)
        if path.startswith("/servers"):
            return self.server_api(method, path, body)
        if path == "/os-hypervisors/detail":
            shown = [
                self.hypervisor(entry) for entry in self.services.values() if entry["provider"]
            ]
            return 200, {"hypervisors": shown}
        raise nova_error(404, "itemNotFound", "The resource could not be found.")

    def aggregate_api(self, method, path, body):
        """Keep aggregates as Nova does; Placement is told of their hosts behind that."""
        _, _, number, *_action = [*path.split("/"), ""]
        if not number:
            if method == "POST":
                number = str(len(self.requests))
                made = {"id": number, "uuid": str(uuid.uuid4()), "hosts": [], "metadata": {}}
                self.aggregates[number] = {**made, "name": body["aggregate"]["name"]}
                return 200, {"aggregate": self.aggregates[number]}
            return 200, {"aggregates": list(self.aggregates.values())}
        if number not in self.aggregates:
            raise nova_error(404, "itemNotFound", f"Aggregate {number} could not be found.")
        aggregate = self.aggregates[number]
        if method == "DELETE":
            if aggregate["hosts"]:
                raise nova_error(409, "conflictingRequest", "Cannot remove a non-empty aggregate.")
            return 200, self.aggregates.pop(number) and None
        for name, fields in body.items():
            if name == "set_metadata":
                aggregate["metadata"] |= fields["metadata"]
                continue
            host, act = fields["host"], "add" if name == "add_host" else "discard"
            if (host in aggregate["hosts"]) == (name == "add_host"):
                status = 409 if name == "add_host" else 404
                raise nova_error(status, "conflictingRequest", f"Host {host} is there or is not.")
            aggregate["hosts"] = sorted(set(aggregate["hosts"]) ^ {host})
            if self.mirrors:
                getattr(self.provider_of(host)["aggregates"], act)(aggregate["uuid"])
        return 200, {"aggregate": aggregate}

    def provider_of(self, host):
        """Return the resource provider of a host."""
        for entry in self.services.values():
            if entry["service"]["host"] == host:
                return self.providers[entry["provider"]]
        raise AssertionError(f"there is no {host}")

    def server_api(self, method, path, body):
        """Place a guest on the host it names, unless an aggregate of that requires a trait."""
        if method == "POST":
            wanted = body["server"]
            required = {entry["uuid"] for entry in self.aggregates.values() if entry["metadata"]}
            is_kept_out = (
                self.isolating and required & self.provider_of(wanted["host"])["aggregates"]
            )
            made = {"id": str(uuid.uuid4()), "name": wanted["name"]}
            made |= {"status": "ERROR" if is_kept_out else "ACTIVE"}
            made["OS-EXT-SRV-ATTR:host"] = None if is_kept_out else wanted["host"]
            self.servers[made["id"]] = made
            return 202, {"server": made}
        number = path.split("/")[2]
        if method == "DELETE":
            del self.servers[number]
            return 204, None
        return 200, {"server": self.servers[number]}

    def hypervisor(self, entry):
        return {
            "id": entry["provider"],
            "hypervisor_hostname": self.providers[entry["provider"]]["name"],
            "state": entry["service"]["state"],
            "status": entry["service"]["status"],
            "service": {
                "id": entry["service"]["id"],
                "host": entry["service"]["host"],
                "disabled_reason": None,
            },
            "cpu_info": {"topology": self.providers[entry["provider"]]["topology"]},
            "vcpus": 4,
            "hypervisor_type": "QEMU",
            "hypervisor_version": entry["qemu"],
        }

    def flavor_api(self, method, path, body, microversion):
        if path == "/flavors/detail" or (path == "/flavors" and method == "GET"):
            return 200, {"flavors": list(self.flavors.values())}
        if method != "GET" and not self.admin:
            rule = (
                "os-flavor-manage:create" if path == "/flavors" else "os-flavor-extra-specs:create"
            )
            raise nova_error(
                403, "forbidden", f"Policy doesn't allow os_compute_api:{rule} to be performed."
            )
        if path == "/flavors":
            fields = body["flavor"]
            if any(flavor["name"] == fields["name"] for flavor in self.flavors.values()):
                raise nova_error(
                    409, "conflictingRequest", f"Flavor with name {fields['name']} already exists."
                )
            return 200, {"flavor": self.new_flavor(fields)}
        _, _, flavor_id, *rest = path.split("/")
        if flavor_id not in self.flavors:
            raise nova_error(404, "itemNotFound", f"Flavor {flavor_id} could not be found.")
        flavor = self.flavors[flavor_id]
        if not rest:
            if method == "DELETE":
                del self.flavors[flavor_id]
                return 202, None
            return 200, {"flavor": flavor}
        if method == "POST":
            self.check_specs(body["extra_specs"], microversion)
            flavor["extra_specs"] |= body["extra_specs"]
        elif method == "DELETE":
            if flavor["extra_specs"].pop(urllib.parse.unquote(rest[1]), None) is None:
                raise nova_error(404, "itemNotFound", "Flavor has no such extra spec.")
            return 200, None
        return 200, {"extra_specs": flavor["extra_specs"]}

    def check_specs(self, specs, microversion):
        """Refuse as Nova does where this package's validators are installed: from 2.86 on."""
        for key, value in specs.items() if self.checks and microversion >= (2, 86) else ():
            spec, _feature = vocabulary.BY_KEY.get(key, (None, None))
            if key.startswith(vocabulary.PREFIX) and spec is None:
                message = f"Validation failed; extra spec '{key}' does not appear to be a valid extra spec."
            elif spec is not None and spec.parse(value) is None:
                message = f"Validation failed; {key}='{value}'."
            elif key == "hw:pci_numa_affinity_policy" and value not in PCI_POLICIES:
                message = f"Validation failed; '{value}' is not one of: {', '.join(PCI_POLICIES)}"
            else:
                continue
            raise nova_error(400, "badRequest", message)

    # ---- Placement ----

    def placement(self, method, path, query, body, _headers):
        if path in ("", "/"):
            version = {
                "id": "v1.0",
                "min_version": "1.0",
                "max_version": "1.39",
                "status": "CURRENT",
            }
            return 200, {"versions": [{**version, "links": [{"rel": "self", "href": ""}]}]}
        if not self.admin:
            raise self.placement_error(
                403, "Forbidden", "Policy does not allow placement:traits:list."
            )
        if path == "/traits":
            start = query["name"].removeprefix("startswith:")
            used = {trait for provider in self.providers.values() for trait in provider["traits"]}
            if query.get("associated") != "true":
                used |= self.traits
            return 200, {"traits": sorted(trait for trait in used if trait.startswith(start))}
        if match := re.fullmatch(r"/traits/(CUSTOM_[A-Z0-9_]+)", path):
            return self.trait_api(method, match[1])
        if path in ("/resource_providers", "/allocation_candidates"):
            able = [
                provider
                for provider in self.providers.values()
                if query.get("in_tree") in (None, provider["uuid"])
                and self.offers(provider, query)
            ]
            roots = [
                dict.fromkeys(("uuid", "root_provider_uuid"), provider["uuid"])
                for provider in able
            ]
            summaries = {root["uuid"]: root for root in roots}
            return 200, {"resource_providers": roots} if path[1] == "r" else {
                "provider_summaries": summaries
            }
        return self.provider_api(method, path, body)

    def trait_api(self, method, trait):
        """Make a trait known, or forget it."""
        if method == "DELETE":
            if trait not in self.traits:
                raise self.placement_error(404, "Not Found", f"No such trait {trait}.")
            self.traits.discard(trait)
            return 204, None
        created = trait not in self.traits
        self.traits.add(trait)
        return (201 if created else 204), None

    def provider_api(self, method, path, body):
        """Show or change what one provider carries."""
        provider = self.providers[path.split("/")[2]]
        if path.endswith("/aggregates"):
            if method == "PUT":
                provider["aggregates"] = set(body["aggregates"])
                provider["generation"] += 1
            return 200, {
                "aggregates": sorted(provider["aggregates"]),
                "resource_provider_generation": provider["generation"],
            }
        if method == "PUT":
            if self.before_traits_put is not None:
                self.before_traits_put(provider)
            if body["resource_provider_generation"] != provider["generation"]:
                raise self.placement_error(
                    409, "Conflict", "resource provider generation conflict"
                )
            unknown = set(body["traits"]) - self.traits
            if unknown:
                raise self.placement_error(
                    400, "Bad Request", f"No such trait {', '.join(sorted(unknown))}."
                )
            provider["traits"] = set(body["traits"])
            provider["generation"] += 1
        return 200, {
            "traits": sorted(provider["traits"]),
            "resource_provider_generation": provider["generation"],
        }

    def offers(self, provider, query):
        """Whether a provider has all traits of a query, and its resources for all groups at once."""
        wanted = collections.Counter()
        if query.get("member_of", "") not in ("", *provider["aggregates"]):
            return False
        for key, text in query.items():
            for part in text.split(",") if key.startswith(("resources", "required")) else ():
                name, _, amount = part.partition(":")
                wanted[name] += int(amount or 0)
                if amount and provider["free"].get(name, 0) < wanted[name]:
                    return False
                if not amount and name.lstrip("!") not in self.traits:
                    raise self.placement_error(400, "Bad Request", f"No such trait(s): {name}.")
                if not amount and (name.lstrip("!") in provider["traits"]) == name.startswith("!"):
                    return False
        return True

    @staticmethod
    def placement_error(status, title, detail):
        error = {
            "status": status,
            "title": title,
            "detail": detail,
            "code": "placement.x",
            "request_id": "req-1",
        }
        return Answer(status, {"errors": [error]})

    # ---- Glance ----

    def image(self, method, path, query, body, _headers):
        if path in ("", "/"):
            link = [{"rel": "self", "href": f"{self.url}/image/v2/"}]
            return 200, {"versions": [{"id": "v2.16", "status": "CURRENT", "links": link}]}
        if method == "POST":
            return 201, self.add_image(**{**body, "status": "queued"})
        if match := re.fullmatch("/v2/images/([^/]+)/file", path):
            self.images[match[1]]["status"] = "active"
            return 204, None
        if method == "PATCH":
            for change in body:
                self.images[path.split("/")[3]][change["path"].lstrip("/")] = change["value"]
            return 200, self.images[path.split("/")[3]]
        if match := re.fullmatch("/v2/images/([^/]+)", path):
            if match[1] not in self.images:
                raise Answer(
                    404,
                    b"<html><title>404 Not Found</title><h1>404 Not Found</h1>No image</html>",
                    "text/html",
                )
            return 200, self.images[match[1]]
        images = [
            image
            for image in self.images.values()
            if query.get("name", image["name"]) == image["name"]
        ]
        images = [
            image for image in images if query.get("owner", image["owner"]) == image["owner"]
        ]
        images = images if query.get("os_hidden", "false").lower() != "true" else []
        return 200, {"images": images, "first": "/v2/images", "schema": "/v2/schemas/images"}

    # ---- Heat ----

    def add_stack(self, name, status="CREATE_COMPLETE", reason="", tags=()):
        """Add a stack of a run, as the templates of this package tag it, and return it."""
        self.stacks[name] = {
            "id": f"id-{name}",
            "stack_name": name,
            "stack_status": status,
            "stack_status_reason": reason,
            "tags": ["nova-perf", name[:30], *tags],
        }
        return self.stacks[name]

    def orchestration(self, method, path, _query, body, _headers):
        _, _, _, _, name, *rest = [*path.split("/"), "", ""]
        name = name.removeprefix("id-")
        if method == "POST":
            self.made.append(body)
            if body["stack_name"] in self.stacks:
                raise Answer(
                    409,
                    {"error": {"message": f"The Stack ({body['stack_name']}) already exists."}},
                )
            return 201, {"stack": self.add_stack(body["stack_name"], *self.status)}
        if not name:
            return 200, {"stacks": list(self.stacks.values())}
        if name not in self.stacks:
            raise Answer(404, {"code": 404, "error": {"message": "The Stack was not found."}})
        if "events" in rest:
            return 200, {"events": self.events}
        if "resources" in rest:
            made = [
                {"resource_name": role, "physical_resource_id": f"{role}-id"}
                for role in ("client", "server")
            ]
            return 200, {"resources": made}
        if method == "DELETE" and name in self.stuck:
            raise Answer(
                403, {"code": 403, "title": "Forbidden", "error": {"message": "it is pinned"}}
            )
        if method == "DELETE":
            if (now := self.deleted(name)) is None:
                del self.stacks[name]
            else:
                self.stacks[name] |= {"stack_status": now[0], "stack_status_reason": now[1]}
            return 204, None
        return 200, {"stack": self.stacks[name]}


class _Handler(http.server.BaseHTTPRequestHandler):
    """Routes /SERVICE/… to the method of that name."""

    protocol_version = "HTTP/1.1"
    wbufsize = (
        -1
    )  # head and body in one segment: a second one waits 40 ms for the first one's delayed ACK

    def log_message(self, *_args):
        pass

    def handle_one(self):
        url = urllib.parse.urlsplit(self.path)
        _, service, *rest = url.path.split("/")
        path = "/" + "/".join(rest) if rest else ""
        query = dict(urllib.parse.parse_qsl(url.query))
        size = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(size)
        body = (
            json.loads(sent) if size and "json" in self.headers["Content-Type"] else sent or None
        )
        try:
            fault = self.fault(url.path)
            with self.cloud.lock:
                if service != "identity":
                    version = self.headers.get("OpenStack-API-Version", "").rpartition(" ")[2]
                    self.cloud.requests.append((self.command, self.path, version, body))
                if fault is not None and not fault.done:
                    raise fault
                status, data = getattr(self.cloud, service)(
                    self.command, path, query, body, self.headers
                )
            raise fault or Answer(status, data if data is not None else b"")
        except Answer as answer:
            self.send_response(answer.status)
            if answer.status == 201 and service == "identity":
                self.send_header("X-Subject-Token", "token")
            self.send_header("Content-Type", answer.kind)
            self.send_header("X-Openstack-Request-Id", "req-0815")
            self.send_header("Content-Length", str(len(answer.body) + answer.missing))
            self.end_headers()
            self.wfile.write(answer.body)
            if answer.missing:
                self.close_connection = True

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = handle_one

    def fault(self, path):
        """Return the answer that a test wants in place of the service's; where it wants none, wait for its end."""
        with self.cloud.lock:
            for fault in self.cloud.faults:
                if re.fullmatch(fault[0], self.command) and re.search(fault[1], path):
                    break
            else:
                return None
            self.cloud.faults.remove(fault)
        if fault[2] is None:
            self.cloud.over.wait()
            self.close_connection = True
            raise ConnectionAbortedError
        return fault[2]
