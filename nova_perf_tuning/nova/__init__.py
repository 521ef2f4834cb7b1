"""The part that runs inside nova-compute: a subclass of Nova's libvirt driver, loaded by ``compute_driver``.

Written to run unchanged on Nova 31 to 34. Every override takes the parameters that are stable over these
releases by name and passes all others through.
"""

from typing import Final

#: Releases of Nova that the functional tests run on.
TESTED: Final = (31, 34)
