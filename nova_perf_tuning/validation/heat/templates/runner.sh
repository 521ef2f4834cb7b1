#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What both guests of a pair run as their user data; heat/benchmark_pair.yaml fills in the @WORDS@.
#
# The server starts the benchmarks' servers and tells its CPU times on a port. The client waits for it, then
# runs every benchmark once in each of its slots, has the server run those that need no peer after it, so that both
# hosts are measured by them, and hands the outputs to Heat. A slot is a stretch of wall-clock
# time (slot number = seconds since the epoch / length); the arms of a comparison take turns in it, A B B A, so
# that they never measure at the same time. Needs busybox, curl, jq and the benchmarks' programs.
set -u
role='@ROLE@' run_id='@RUN_ID@' peer='@PEER@' tx_offload='@TX_OFFLOAD@'
arm='@ARM@' arms='@ARMS@' trials='@TRIALS@' slot_s='@SLOT_SECONDS@' start='@START_EPOCH@'
control_port=5198 run_port=5197
# Seconds for the whole answer of the peer about its CPU.
answer_s=6
# Bytes of a program's output that are kept.
keep=262144
# Bytes of the peer's answer that are kept: two outputs in base64, and three short lines.
keep_answer=1048576
work=/run/nova-perf
mkdir -p "$work/outputs"

say() { echo "nova-perf $role: $*"; }

# signal_report FILE, signal_documents FILE: hand a signal to Heat; its own words are of no use to anybody.
signal_report() {
    @SIGNAL_REPORT@ -sSf --connect-timeout 10 --max-time 120 --data-binary "@$1" >"$work/answer" 2>"$work/error"
}
signal_documents() {
    @SIGNAL_DOCUMENTS@ -sSf --connect-timeout 10 --max-time 120 --data-binary "@$1" >"$work/answer" 2>"$work/error"
}
# A router may need a while until it forwards; a signal that was sent is not sent again.
try_signal() {
    for pause in 1 2 3 5 8 13 20 30 60 60; do
        "$1" "$2" && return 0
        say "Heat cannot be reached ($(tail -n 1 "$work/error")); trying again in $pause s"
        sleep "$pause"
    done
    say "giving up. Does curl time out while ping works? Then set guest_tx_offload to false"
    return 1
}
# tell STATUS ID TEXT: a signal to the report whose data is text; no jq, since its absence is reported this way.
# Heat's events do not have the id: the text begins with it.
tell() {
    text=$(printf '%s' "$3" | tr -c ' -~' ' ' | tr -d '\042\134' | head -c 1000) # no quote, no backslash
    printf '{"status":"%s","id":"%s","reason":"%s","data":"%s"}' "$1" "$2" "$text" "$text" >"$work/signal"
    try_signal signal_report "$work/signal"
}
fail() {
    say "$*"
    tell FAILURE "$role" "$role: $*"
    exit 1
}

# Hundredths of a second since the epoch: date has whole seconds only, so its tick is timed once.
uptime_cs() {
    read -r up _ </proc/uptime
    echo "${up%.*}${up#*.}"
}
synchronise() {
    second=$(date +%s)
    while [ "$(date +%s)" = "$second" ]; do usleep 5000; done
    offset_cs=$((($(date +%s) * 100) - $(uptime_cs)))
}
now_cs() { echo $(($(uptime_cs) + offset_cs)); }

facts() {
    for path in /sys/class/net/*; do
        interface=${path##*/}
        [ "$interface" = lo ] || break
    done
    channels() { ethtool -l "$interface" 2>/dev/null | sed -n 's/^Combined:[^0-9]*//p' | sed -n "$1p" | tr -cd 0-9; }
    jq -cn --arg kernel "$(uname -r)" --arg cpus "$(grep -c ^processor /proc/cpuinfo)" \
        --arg clock "$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)" \
        --arg queues "$(channels 2)" --arg queues_max "$(channels 1)" --arg mtu "$(cat "/sys/class/net/$interface/mtu")" \
        --arg memory "$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)" \
        --arg checksum "$(ethtool -k "$interface" 2>/dev/null | sed -n 's/^tx-checksumming: //p')" \
        'def count: if . == "" then null else tonumber end;
         {kernel: $kernel, cpus: ($cpus | count), memory_kib: ($memory | count), clocksource: $clock, mtu: ($mtu | count),
          queues: ($queues | count), queues_max: ($queues_max | count), tx_checksum: $checksum}'
}

prepare() {
    # fio's files are on a disk: in the benchmark image's scratch directory, or where other images have room.
    cd /scratch 2>/dev/null || cd /var/tmp || exit 1
    for program in curl busybox; do
        command -v "$program" >/dev/null || { say "the image has no $program"; exit 1; }
    done
    case $tx_offload in
        [Ff]alse)
            for path in /sys/class/net/*; do
                [ "${path##*/}" = lo ] || ethtool -K "${path##*/}" tx off >/dev/null 2>&1
            done
            ;;
    esac
    for program in jq iperf3 fio ethtool; do
        command -v "$program" >/dev/null || fail "the image has no $program; use the one that tools/image/build --cloud makes"
    done
    cat >"$work/commands.jq" <<'END_OF_PROGRAM'
@COMMANDS@
END_OF_PROGRAM
    cat >"$work/figures.jq" <<'END_OF_PROGRAM'
@FIGURES@
END_OF_PROGRAM
    cat >"$work/benchmarks.json" <<'END_OF_LIST'
@BENCHMARKS@
END_OF_LIST
    jq -c --arg peer "$peer" -f "$work/commands.jq" "$work/benchmarks.json" >"$work/commands.json" 2>"$work/error" ||
        fail "parameter benchmarks: $(head -c 300 "$work/error")"
    jq -r '.[].alone' "$work/commands.json" >"$work/alone"
    count=$(wc -l <"$work/alone")
    [ "$count" -ge 1 ] || fail "parameter benchmarks: the list is empty"
    # Quoted for the shell now: in a slot every process that is started costs an emulated guest time.
    number=0
    while [ "$number" -lt "$count" ]; do
        jq -r ".[$number].client | @sh" "$work/commands.json" >"$work/client.$number"
        number=$((number + 1))
    done
    facts >"$work/facts.json"
}

# shellcheck disable=SC2120  # its own arguments are the command's
serve() {
    cat >"$work/cpu" <<'END_OF_SCRIPT'
#!/bin/sh
head -n 1 /proc/stat
cat /run/nova-perf/facts.json
END_OF_SCRIPT
    cat >"$work/run" <<'END_OF_SCRIPT'
#!/bin/sh
# Runs one benchmark of the list: its number and seconds in; out come status, CPU times before and after, outputs.
work=/run/nova-perf
read -r number seconds
case $number$seconds in '' | *[!0-9]*) exit 1 ;; esac
eval "set -- $(cat "$work/client.$number")"
before=$(head -n 1 /proc/stat)
timeout -k 2 "$seconds" "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
printf '%s\n%s\n' "$?" "$before"
head -n 1 /proc/stat
for stream in stdout stderr; do
    head -c 262144 "$work/$stream" | base64 | tr -d '\n'
    echo
done
END_OF_SCRIPT
    chmod 755 "$work/cpu" "$work/run"
    busybox nc -ll -p "$control_port" -e "$work/cpu" &
    busybox nc -ll -p "$run_port" -e "$work/run" &
    count=$(jq '[.[].server | select(.)] | unique | length' "$work/commands.json")
    number=0
    while [ "$number" -lt "$count" ]; do
        # jq quotes for the shell.
        eval "set -- $(jq -r --argjson n "$number" '[.[].server | select(.)] | unique | .[$n] | @sh' "$work/commands.json")"
        (while :; do
            "$@" >/dev/null 2>&1 </dev/null
            usleep 100000
        done) &
        number=$((number + 1))
    done
    say "ready, serving $count commands"
    tell SUCCESS server "server ready: $(tr -d '{}"' <"$work/facts.json")"
    wait
}

# One line of /proc/stat of the server, and its facts below.
# A peer that accepts and says nothing, or a byte now and then, would hold nc for ever: its -w limits
# only the connecting.
ask_server() {
    timeout -k 2 "$answer_s" busybox nc -w 5 "$peer" "$control_port" 2>/dev/null </dev/null | head -c 4096
}

# is_count TEXT: whether it is a whole number as JSON and every shell read it. What the peer sends is tested by this
# first: the arithmetic of bash runs commands that stand in its words.
is_count() {
    case $1 in '' | *[!0-9]* | 0?* | ????????????????*) return 1 ;; esac
}
# cpu_busy LINE: user+nice+system+irq+softirq in ticks; nothing where the line has no such numbers.
cpu_busy() (
    set -f
    # shellcheck disable=SC2086
    set -- $1
    [ $# -ge 8 ] || exit 1
    for ticks in "$2" "$3" "$4" "$7" "$8"; do is_count "$ticks" || exit 1; done
    echo $(($2 + $3 + $4 + $7 + $8))
)

# next_slot: number of the first slot of this arm that has not begun.
next_slot() {
    now=$(($(now_cs) / 100 + 1))
    [ "$now" -ge "$start" ] || now=$start
    slot=$(((now + slot_s - 1) / slot_s))
    while :; do
        block=$((slot / arms)) position=$((slot % arms))
        [ $((block % 2)) = 0 ] || position=$((arms - 1 - position))
        [ "$position" != "$arm" ] || break
        slot=$((slot + 1))
    done
    echo "$slot"
}
sleep_until_cs() {
    left=$(($1 - $(now_cs)))
    [ "$left" -le 0 ] || sleep "$((left / 100)).$(printf %02d $((left % 100)))"
}

# run_once NUMBER SLOT TRIAL END: one benchmark; its outputs and CPU times go into files.
run_once() {
    eval "set -- $1 $2 $3 $4 $(cat "$work/client.$1")"
    number=$1 slot=$2 trial=$3 end_cs=$4
    shift 4
    while :; do
        server_before=$(cpu_busy "$(ask_server | head -n 1)")
        client_before=$(cpu_busy "$(head -n 1 /proc/stat)")
        begin=$(now_cs)
        left=$(((end_cs - begin) / 100))
        if [ "$left" -lt 1 ]; then
            status=124
            echo "no time was left in the slot" >"$work/stderr"
            : >"$work/stdout"
        else
            timeout -k 2 "$left" "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
            status=$?
        fi
        finish=$(now_cs)
        client_after=$(cpu_busy "$(head -n 1 /proc/stat)")
        server_after=$(cpu_busy "$(ask_server | head -n 1)")
        # The peer's server starts anew after every run and may not listen yet.
        if [ "$status" = 0 ] || [ $(((end_cs - finish) / 100)) -le 2 ] ||
            ! grep -q refused "$work/stdout" "$work/stderr"; then
            break
        fi
        usleep 250000
    done
    keep_run client "${client_before:+$client_before,$client_after}" \
        "${server_after:+${server_before:+$server_before,$server_after}}"
    say "slot $slot: ${1##*/} ended with status $status after $(((finish - begin) / 100)) s"
}

# run_there NUMBER SLOT TRIAL END: one benchmark that needs no peer, on the server.
run_there() {
    number=$1 slot=$2 trial=$3 begin=$(now_cs)
    left=$((($4 - begin) / 100))
    : >"$work/answer"
    [ "$left" -lt 1 ] ||
        echo "$number $left" | timeout -k 2 "$((left + 1))" busybox nc "$peer" "$run_port" 2>/dev/null |
        head -c "$keep_answer" >"$work/answer"
    finish=$(now_cs)
    { read -r status && read -r before && read -r after; } <"$work/answer" || status=124 before='' after=''
    if ! is_count "$status" || [ "$status" -gt 255 ]; then status=124; fi
    before=$(cpu_busy "$before") after=$(cpu_busy "$after")
    sed -n 4p "$work/answer" | base64 -d >"$work/stdout" 2>/dev/null
    sed -n 5p "$work/answer" | base64 -d >"$work/stderr" 2>/dev/null
    keep_run server '' "${after:+${before:+$before,$after}}"
    say "slot $slot: benchmark $number on the server ended with status $status after $(((finish - begin) / 100)) s"
}

# keep_run ROLE CLIENT_TICKS SERVER_TICKS: what the run was. Put together after the last slot: jq alone takes an
# emulated guest a second to start.
keep_run() {
    for stream in stdout stderr; do head -c "$keep" "$work/$stream" >"$work/outputs/$trial.$number.$1.$stream"; done
    printf '{"trial":%s,"number":%s,"role":"%s","slot":%s,"status":%s,"begin":%s,"finish":%s,"client":[%s],"server":[%s]}\n' \
        "$trial" "$number" "$1" "$slot" "$status" "$begin" "$finish" "$2" "$3" >>"$work/runs"
}

# take_turn TRIAL SLOT END: every benchmark once.
take_turn() {
    turn_end=$3 number=0
    while [ "$number" -lt "$count" ]; do
        run_once "$number" "$2" "$1" "$turn_end"
        [ "$(sed -n "$((number + 1))p" "$work/alone")" != true ] || run_there "$number" "$2" "$1" "$turn_end"
        number=$((number + 1))
    done
}
forget_runs() {
    rm -rf "$work/runs" "$work/outputs"
    mkdir -p "$work/outputs"
}
# warm_up_early: the warm-up in the time that is left before the first slot can begin, when no arm measures. It
# costs no slot then; where that time is too short, or something did not end well, it has one as every trial has.
warm_up_early() {
    [ $((start - $(now_cs) / 100)) -ge "$slot_s" ] || return 1
    take_turn 0 0 $((start * 100 - 100))
    ! grep -qv '"status":0,' "$work/runs"
}

# await_server: wait for the other side, and note its facts where it has any.
await_server() {
    tries=0
    until ask_server >"$work/server" && [ -s "$work/server" ]; do
        tries=$((tries + 1))
        # The code by which nova_perf_tuning.validation.heat.stacks tells a silent peer from a benchmark that failed.
        [ "$tries" -lt 120 ] || fail "[silent-peer] the server $peer does not answer on port $control_port"
        sleep 1
    done
    sed 1d "$work/server" >"$work/server.json"
}

measure() {
    await_server
    tell SUCCESS client "client ready: $(tr -d '{}"' <"$work/facts.json")"
    synchronise
    # Trial 0 is the warm-up: files are laid out, caches filled; it is not reported.
    trial=0
    ! warm_up_early || trial=1
    forget_runs
    while [ "$trial" -le "$trials" ]; do
        slot=$(next_slot)
        # Clocks of two guests may differ by a little.
        sleep_until_cs $((slot * slot_s * 100 + 50))
        take_turn "$trial" "$slot" $(((slot + 1) * slot_s * 100 - 100))
        [ "$trial" != 0 ] || forget_runs
        trial=$((trial + 1))
    done
    # What follows is work, too: not in the slots that other arms have left in this block.
    [ $(((slot + 1) % arms)) = 0 ] || sleep_until_cs $(((slot / arms + 1) * arms * slot_s * 100))
}

# put_together: of the files of all runs, the documents and the signal with the figures; in one process, see keep_run.
put_together() {
    set --
    for path in "$work"/outputs/*; do set -- "$@" --rawfile "${path##*/}" "$path"; done
    # Where nothing worked at all, the stack fails and says why.
    jq -cs "$@" --arg hertz "$(getconf CLK_TCK 2>/dev/null || echo 100)" \
        --slurpfile commands "$work/commands.json" --slurpfile benchmarks "$work/benchmarks.json" \
        --arg run_id "$run_id" --argjson arm "$arm" --argjson arms "$arms" --argjson slot_s "$slot_s" \
        --slurpfile client "$work/facts.json" --slurpfile server "$work/server.json" \
        'def busy: if length == 2 then (.[1] - .[0]) / ($hertz | tonumber) else null end;
         map({label: $commands[0][.number].label, benchmark: $benchmarks[0][.number].benchmark, trial, role, slot,
              begin: (.begin / 100), end: (.finish / 100), status, cpu: {client: (.client | busy), server: (.server | busy)},
              stdout: $ARGS.named["\(.trial).\(.number).\(.role).stdout"],
              stderr: $ARGS.named["\(.trial).\(.number).\(.role).stderr"]})
         | {schema: 1, run_id: $run_id, arm: $arm, arms: $arms, slot_seconds: $slot_s,
            guests: {client: $client[0], server: $server[0]}, trials: map(del(.benchmark))},
           ((if any(.status == 0) then "SUCCESS" else "FAILURE" end) as $status |'"$(cat "$work/figures.jq")"'
            | {status: $status, id: "figures", data: .,
               reason: (if $status == "SUCCESS" then "measured" else to_entries | map("\(.key) \(.value)") | join("; ") | .[0:1000] end)})' \
        "$work/runs" >"$work/results" 2>"$work/error" ||
        fail "the trials cannot be put together: $(head -c 300 "$work/error")"
}

hand_over() {
    head -n 1 "$work/results" | gzip -9 | base64 | tr -d '\n' >"$work/documents"
    printf '{"status":"SUCCESS","id":"results","reason":"results","data":"%s"}\n' "$(cat "$work/documents")" >"$work/signal"
    try_signal signal_documents "$work/signal" || return 1
    tail -n 1 "$work/results" >"$work/signal"
    try_signal signal_report "$work/signal" || return 1
    say "results are with Heat"
}

prepare
if [ "$role" = server ]; then
    # shellcheck disable=SC2119
    serve
else
    measure
    put_together
    hand_over
fi
