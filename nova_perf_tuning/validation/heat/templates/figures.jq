# SPDX-License-Identifier: Apache-2.0
# Sums up trials for a person: label -> one line. Input: the trials (with "stdout" as text), slurped.
# Not what is judged: that is worked out from the documents, with its uncertainty. They are made by the same process:
# no output may stop it, or hold it up as replacing in a long text does.

def figure:
  if .status != 0 then null
  elif .benchmark == "iperf3" then
    # Several processes are a list; one that printed nothing is an error, not nothing to add.
    try (.stdout | fromjson | [(.outputs // [.])[] | .end.sum_received.bits_per_second / 1e6]
         | {name: "throughput", unit: "Mbit/s", value: (add // error)}) catch null
  elif .benchmark == "fio" then
    try (.stdout | .[index("{"):] | fromjson | .jobs[0] | [.read.iops, .write.iops] | add
         | {name: "I/O", unit: "IO/s", value: .}) catch null
  elif .benchmark == "cpu" then
    try (.stdout | capture("events per second: *(?<n>[0-9.]+)") | {name: "speed", unit: "events/s", value: (.n | tonumber)})
    catch null
  elif .benchmark == "smb" then
    # The published rule: the best and the worst run do not count.
    try (.stdout | fromjson | .bytes as $bytes | [.seconds[] | $bytes / . / 1e6] | sort
         | {name: "copy", unit: "MB/s", value: (.[1:-1] | add / length), single: .}) catch null
  else null end;

def median: sort | if length % 2 == 1 then .[(length - 1) / 2] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def shown: . * 100 | round / 100 | tostring;

# Of benchmarks that repeat what they do: all repetitions, with figures that one bad run does not move.
def repetitions:
  map(.single // empty | .[])
  | if length == 0 then ""
    else median as $median
      | "; \(length) copies: median \($median | shown), deviation \(map(. - $median | fabs) | median | shown),"
        + " \(min | shown) to \(max | shown)"
    end;

def summary:
  map(. + {figure: figure}) as $runs
  | ($runs | map(.figure | select((.value | type) == "number"))) as $good
  | ($runs | map(select(.status != 0))) as $bad
  | if ($good | length) > 0 then
      ($good | map(.value)) as $values
      | "\($good[0].name) \($values | median | shown) \($good[0].unit), median of \($values | length)"
        + " (\($values | min | shown) to \($values | max | shown))"
        + ($good | repetitions)
        + (if ($bad | length) > 0 then "; \($bad | length) failed" else "" end)
    elif ($bad | length) > 0 then
      "failed: status \($bad[0].status): \(($bad[0] | .stderr[0:300] + " " + .stdout[0:300]) | gsub("[^ -~]+"; " ") | .[0:200])"
    else "\(length) runs; figures are in the documents" end;

group_by([.label, .role])
| map({key: (.[0].label + (if .[0].role == "server" then " on the server" else "" end)), value: summary}) | from_entries
