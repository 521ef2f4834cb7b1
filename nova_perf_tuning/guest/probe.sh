#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sections are separated by "== name". Nothing in it fails where a file or program is missing.
s() { echo "== $1"; }
s flags; grep -m1 -ow hypervisor /proc/cpuinfo
c=/dev/cpu/0/cpuid
s signature; [ -r $c ] && dd if=$c bs=16 skip=67108864 count=1 | tail -c 12; echo
s clock; cat /sys/devices/system/clocksource/clocksource0/current_clocksource
s clocks; cat /sys/devices/system/clocksource/clocksource0/available_clocksource
for d in /sys/class/net/*; do
n=${d##*/}; [ -e "$d/device" ] || continue
s "nic $n"; ls "$d/queues"; ethtool -l "$n"
s "offload $n"; ethtool -k "$n"
done
s pci; for d in /sys/bus/pci/devices/*; do echo "${d##*/} $(cat "$d/numa_node")"; done
for d in /sys/block/*; do [ -d "$d/mq" ] && { s "disk ${d##*/}"; ls "$d/mq"; }; done
exit 0
