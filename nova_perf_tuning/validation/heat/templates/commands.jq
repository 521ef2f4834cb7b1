# SPDX-License-Identifier: Apache-2.0
# Turns the list of benchmarks into command lines, as the plug-ins of nova_perf_tuning/bench do.
# Input: [{"benchmark": KIND, "parameters": {…}}, …]; an entry with "client" (and "server") lists of arguments
# is taken as it is, "PEER" in them standing for the server's address. $peer is that address.
# Output: [{"label", "client": […], "server": […] or null, "alone"}, …]; what is alone needs no other side and runs
# on either guest. "paired" says of an entry with "client" that it does, though no "server" is started for it.

def value($name; $default): ((.parameters // {})[$name] // $default) | tostring;

# 16k, 64M … in powers of 1024.
def bytes:
  (capture("^(?<n>[0-9]+)(?<unit>[kKmMgG]?)$") // error("a size such as 16k or 64M was expected, not \(.)"))
  | (.n | tonumber) * ({"": 1, "k": 1024, "m": 1048576, "g": 1073741824}[.unit | ascii_downcase])
  | tostring;

# The same command on several ports side by side.
def fan($argv):
  value("port"; 5201) as $port
  | value("processes"; 1) as $count
  | if $count == "1" then $argv | map(if . == "@PORT@" then $port else . end)
    else ["nova-perf-bench", "fan", $count, $port] + $argv end;

def iperf3:
  {server: fan(["iperf3", "-s", "-1", "-B", $peer, "-p", "@PORT@"]),
   client: fan(["iperf3", "-c", $peer, "-p", "@PORT@", "-t", value("seconds"; 10),
                "-P", value("streams"; 1), "-i", "0", "-J", "--connect-timeout", "20000"]
               + (if value("direction"; "forward") == "reverse" then ["-R"] else [] end)
               + (if value("bitrate"; 0) == "0" then [] else ["-b", value("bitrate"; 0) + "M"] end))};

# The pattern fdatasync is etcd's check, with defaults of its own; it ends with its file.
def fio:
  value("pattern"; "randwrite") as $pattern
  | (if $pattern == "fdatasync"
     then {block_size: "2300", size: "22m", engine: "sync", seconds: 0}
     else {block_size: "16k", size: "64M", engine: "psync", seconds: 10} end) as $usual
  | value("seconds"; $usual.seconds) as $seconds
  | {server: null,
   client: (["fio", "--name=nova-perf", "--group_reporting",
            (if $pattern == "fdatasync" then "--rw=write", "--fdatasync=1", "--unlink=1"
             else "--direct=1", "--rw=" + $pattern end),
            (if $pattern == "randrw" then "--rwmixread=" + value("reads"; 70) else empty end),
            "--bs=" + (value("block_size"; $usual.block_size) | bytes),
            "--size=" + (value("size"; $usual.size) | bytes), "--numjobs=" + value("jobs"; 1),
            "--ioengine=" + value("engine"; $usual.engine), "--iodepth=" + value("depth"; 1),
            (if $seconds == "0" or $pattern == "fdatasync" then empty else "--time_based" end),
            (if $seconds == "0" then empty else "--runtime=" + $seconds end),
            "--directory=" + value("directory"; "."), "--output-format=json"])};

def cpu:
  {server: null,
   client: ["sysbench", "cpu", "--threads=" + value("threads"; 1), "--time=" + value("seconds"; 10), "--events=0",
            "--cpu-max-prime=" + value("limit"; 10000), "run"]};

# A number within limits, as text; the plug-in has the same ones.
def whole($name; $default; $low; $high):
  value($name; $default)
  | if test("^[0-9]{1,9}$") and (tonumber | . >= $low and . <= $high) then .
    else error("smb: \($name) must be a whole number from \($low) to \($high), not \(.[0:40])") end;

def smb:
  whole("port"; 5445; 1; 65535) as $port
  | "nova-perf-copy.data" as $file
  | "put \($file)" as $put
  | {paired: true,
     server: ["nova-perf-share", $peer, $port],
     client: (["nova-perf-bench", "copy", $file, whole("megabytes"; 100; 1; 100000), whole("runs"; 5; 3; 100),
               "smbclient", "//bench/bench", "-I", $peer, "--configfile=/dev/null", "-p", $port, "-N", "-c"]
              + (if value("direction"; "put") == "put" then [$put]
                          else ["get \($file) \($file).back", "--before", $put] end))};

def commands:
  if .client then
    {paired: (.paired // false),
     client: (.client | map(if . == "PEER" then $peer else tostring end)),
     server: (if .server then .server | map(if . == "PEER" then $peer else tostring end) else null end)}
  elif .benchmark == "iperf3" then iperf3
  elif .benchmark == "fio" then fio
  elif .benchmark == "cpu" then cpu
  elif .benchmark == "smb" then smb
  else error("benchmark \(.benchmark) is neither iperf3, fio, cpu nor smb (nova-perf validate gives all others their commands) and brings no \"client\" arguments")
  end;

map({label: (.label // .benchmark | tostring)}
    + (commands | {client, server, alone: (.server == null and (.paired | not))}))
