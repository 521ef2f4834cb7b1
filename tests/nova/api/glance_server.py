"""A real Glance API on loopback, on a database of its own: ``python glance_server.py DIR``.

Run as a file, for the package that it lies in imports Nova. Prints its port when it listens. Tokens are those of
Glance's own tests, USER:PROJECT:ROLE, so that policies are at work. Only metadata definitions are meant to be
used: there is no image store.
"""

import pathlib
import sys
from wsgiref import simple_server

PASTE = """
[composite:glance-api]
paste.composite_factory = glance.api:root_app_factory
/: api
[pipeline:api]
pipeline = versionnegotiation fakeauth rootapp
[composite:rootapp]
paste.composite_factory = glance.api:root_app_factory
/: apiversions
/v2: apiv2app
[app:apiversions]
paste.app_factory = glance.api.versions:create_resource
[app:apiv2app]
paste.app_factory = glance.api.v2.router:API.factory
[filter:versionnegotiation]
paste.filter_factory = glance.api.middleware.version_negotiation:VersionNegotiationFilter.factory
[filter:fakeauth]
paste.filter_factory = glance.tests.utils:FakeAuthMiddleware.factory
"""


class QuietHandler(simple_server.WSGIRequestHandler):
    """Writes no access log to stderr."""

    def log_message(self, *_args):
        pass


def write_configuration(folder):
    """Write Glance's files into ``folder`` and return the path of glance-api.conf."""
    path = pathlib.Path(folder) / "glance-api.conf"
    path.write_text(f"[database]\nconnection = sqlite:///{folder}/glance.sqlite\n")
    (pathlib.Path(folder) / "paste.ini").write_text(PASTE)
    return str(path)


def main(folder):
    """Make the database and serve until killed."""
    import glance_store
    from glance.api.v2 import router  # noqa: F401 (registers options that must be known before the file is read)
    from glance.common import config
    from glance.db.sqlalchemy import api as db_api
    from glance.db.sqlalchemy import models, models_metadef
    from glance.tests import utils  # noqa: F401 (likewise)
    from oslo_config import cfg

    config.set_config_defaults()
    glance_store.register_opts(cfg.CONF)
    cfg.CONF([], project="glance", default_config_files=[write_configuration(folder)])
    engine = db_api.get_engine()
    models.register_models(engine)
    models_metadef.register_models(engine)
    app = config.load_paste_app("glance-api", flavor="", conf_file=f"{folder}/paste.ini")
    server = simple_server.make_server("127.0.0.1", 0, app, handler_class=QuietHandler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
