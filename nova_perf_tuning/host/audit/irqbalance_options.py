# SPDX-License-Identifier: Apache-2.0
"""What irqbalance leaves alone by the options of its service: CPUs and interrupts."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.input.facts import irqbalance_unit
from nova_perf_tuning.host.kinds import irqbalance
from nova_perf_tuning.host.plan import vectors

_ONLINE: Final = "sys/devices/system/cpu/online"
#: irqbalance looks at the mask first, as long as it knows it (before 1.8 it knows no list).
_BANNED_CPUS: Final = ("IRQBALANCE_BANNED_CPUS", "IRQBALANCE_BANNED_CPULIST")
#: Options that ban one interrupt each, and its number.
_BANNED_ONE: Final = ("--banirq", "-i")
#: Options that ban the interrupts of one kernel module each.
_BANNED_MODULE: Final = ("--banmod", "-m")
_NUMBER: Final = re.compile(r"[0-9]{1,5}")
#: The options of irqbalance since 1.6 (irqbalance.c, parse_command_line()): those without a value, those with one.
_LONG: Final = (
    *("oneshot", "debug", "foreground", "journal", "version", "powerthresh", "banirq", "banmod"),
    *("deepestcache", "policyscript", "pid", "interval", "migrateval"),
)
_LONG_WITH_VALUE: Final = _LONG[5:]
_SHORT: Final = "odfjV"
_SHORT_WITH_VALUE: Final = "pimclste"


@dataclasses.dataclass(frozen=True, slots=True)
class IrqbalanceEnvironment:
    """What irqbalance's service gets as variables: of its unit, and of the files that the unit names.

    :ivar path: the file that bans CPUs, else the last that has any variable, below the root.
    :ivar options: variable -> text, without quotes.
    :ivar exported: variables that ban CPUs in lines ``export NAME=text`` of a file, which are not in force.
    :ivar found: whether the file is there.
    :ivar unread: files that the unit names and that are unknown.
    """

    path: str
    options: Mapping[str, str]
    exported: Mapping[str, str]
    found: bool
    unread: Sequence[str] = ()

    @classmethod
    def read(cls, host: Host) -> "IrqbalanceEnvironment":
        """Return the variables of a host's service."""
        unit = irqbalance_unit.read(host.root)
        options = dict(unit.variables)
        exported: dict[str, str] = {}
        path = ""
        if any(options.get(name) for name in _BANNED_CPUS):
            path = unit.set_in
        for file in unit.files:
            options |= file.variables
            lost = {key: text for key, text in file.exported.items() if key in _BANNED_CPUS}
            exported |= lost
            if lost or any(file.variables.get(name) for name in _BANNED_CPUS):
                path = file.path
        if not path and unit.files:
            path = unit.files[-1].path
        usual = path or unit.set_in or irqbalance_unit.USUAL_FILES[0]
        return cls(usual, options, exported, bool(unit.files or unit.set_in), unit.unread)

    @property
    def banning(self) -> str:
        """The variable that bans CPUs; empty where there is none, or none with a text (cputree.c of 1.7 to 1.9.5)."""
        for name in _BANNED_CPUS:
            if self.options.get(name):
                return name
        return ""

    @property
    def banned(self) -> frozenset[int]:
        """The CPUs that :attr:`banning` bans; none where its text is not of its form.

        Both forms: cputree.c, setup_banned_cpus().
        """
        return _cpus(self.banning, self.options.get(self.banning, ""))

    @property
    def banned_in_vain(self) -> frozenset[int]:
        """The CPUs that lines with ``export`` would ban, where no other variable bans any; else none."""
        if self.banning:
            return frozenset()
        cpus: frozenset[int] = frozenset()
        for name, text in self.exported.items():
            cpus |= _cpus(name, text)
        return cpus

    def says(self, host: Host) -> str:
        """Return in words which CPUs are banned, and which online ones are left."""
        alone: list[str] = []
        if self.banned_interrupts:
            alone.append(cpulist.named(self.banned_interrupts, "interrupt"))
        modules = [value for option, value in _options(self.arguments) if option in _BANNED_MODULE]
        if modules:
            alone.append(f"interrupts of {', '.join(modules)}")
        interrupts = f", and leaves {' and '.join(alone)} alone" if alone else ""
        banned = self.banned
        if self.banned_in_vain:
            cpus = cpulist.named(self.banned_in_vain)
            return f"/{self.path} bans no CPU: systemd ignores its line with export, for {cpus}{interrupts}"
        if not banned:
            return f"/{self.path} bans no CPU{interrupts}"
        bans = f"{self.banning} bans {cpulist.named(banned)}"
        online = cpulist.find(host.text(_ONLINE) or "")
        if not online:
            return f"{bans}{interrupts}"
        left = online - banned
        return f"{bans} and leaves {cpulist.named(left) if left else 'none'}{interrupts}"

    @property
    def banned_interrupts(self) -> frozenset[int]:
        """The interrupts that ``--banirq`` or ``-i`` bans one by one."""
        numbers = {value for option, value in _options(self.arguments) if option in _BANNED_ONE}
        return frozenset(int(number) for number in numbers if _NUMBER.fullmatch(number))

    @property
    def arguments(self) -> str:
        """The texts of all variables but those that ban CPUs."""
        return " ".join(value for key, value in self.options.items() if key not in _BANNED_CPUS)

    @property
    def unknown_option(self) -> str:
        """The first option that irqbalance does not know: it then prints its usage and ends; empty: none.

        As getopt_long() reads them: a long one may be cut short, and short ones may share a dash.
        """
        words = iter(self.arguments.split())
        for word in words:
            if word == "--":
                break
            if word.startswith("--"):
                name, equals, _value = word[2:].partition("=")
                meant = [option for option in _LONG if option.startswith(name)]
                if not meant:
                    return f"--{name}"
                if not equals and meant[0] in _LONG_WITH_VALUE:
                    next(words, "")
            elif word.startswith("-"):
                letters = word[1:].lstrip(_SHORT)
                if letters and letters[0] not in _SHORT_WITH_VALUE:
                    return f"-{letters[0]}"
                if len(letters) == 1:
                    next(words, "")
        return ""

    @property
    def shown(self) -> str:
        """The texts of the file that matter, as evidence."""
        if self.exported and not self.banning:
            return "; ".join(f"export {key}={text}" for key, text in self.exported.items())
        return " ".join(f"{key}={value}" for key, value in self.options.items()) or "no bans"

    def leaves_interrupts_alone(self, host: Host) -> bool:
        """Whether irqbalance moves no queue's interrupt: by our script, or by its options."""
        running = host.programs.get("irqbalance")
        if running is not None and host.root.live and irqbalance.uses_our_script(running):
            return True
        return _bans_interrupts(host, self.arguments)


def _cpus(name: str, text: str) -> frozenset[int]:
    """Return the CPUs that a variable with this text bans."""
    if name != "IRQBALANCE_BANNED_CPUS":
        return cpulist.find(text) or frozenset()
    if not cpulist.is_mask(text):
        return frozenset()
    return cpulist.parse_mask(text)


def _options(arguments: str) -> list[tuple[str, str]]:
    """Return the options that leave interrupts alone, each with its value."""
    return re.findall(r"(?:^|\s)(--\w+|-[ilm])[=\s]*([^\s-]\S*)", arguments)


def _bans_interrupts(host: Host, arguments: str) -> bool:
    """Whether options leave all queues' interrupts alone: by a script, by modules or one by one."""
    modules: set[str] = set()
    numbers: set[str] = set()
    for option, value in _options(arguments):
        if option in ("--policyscript", "--banscript", "-l"):
            return True
        if option in _BANNED_MODULE:
            modules.add(value)
        elif option in _BANNED_ONE:
            numbers.add(value)
    some = False
    for nic in host.links:
        queues = vectors.classify(nic, host.interrupts(nic)).queues
        for irqs in queues.values():
            some = True
            if nic.driver not in modules and any(str(irq.number) not in numbers for irq in irqs):
                return False
    return some
