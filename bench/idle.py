#!/usr/bin/env python3
"""Tells what a machine's cores wait for: which threads run, are ready to run, or wait for the disk, and how much of the
time in which a core is idle somebody is ready to run on another.

    perf record -a -m 8192 -e sched:sched_switch,sched:sched_wakeup -o sched.data -- sleep 1
    perf script -i sched.data -F comm,tid,cpu,time,event,trace | bench/idle.py

Threads of one name count together. Some kernels leave out switches away from an idle core; whoever then leaves it without
having come is taken to have come when it was woken.
"""

import re
import sys
from collections import Counter

LINE = re.compile(r".*\[(\d+)\]\s+([\d.]+): sched:(\w+): (.*)")
SWITCH = re.compile(r"prev_comm=(.*) prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+)")
WAKEUP = re.compile(r"comm=(.*) pid=(\d+)")
NOBODY = 0


def events(lines):
    """Who is woken, and who leaves a core to whom, in order of time: (time, core, left, state, came); of the woken, came alone."""
    names, last, woken, found, missing = {NOBODY: "nobody"}, {}, {}, [], 0
    for line in lines:
        if not (parts := LINE.match(line)):
            continue
        core, time, event, rest = parts[1], float(parts[2]), parts[3], parts[4]
        if event == "sched_switch" and (switch := SWITCH.match(rest)):
            left, state, came = int(switch[2]), switch[3], int(switch[5])
            names[left], names[came] = switch[1], switch[4]
            since, there = last.get(core, (time, left))
            if there != left:
                missing += 1
                found.append((max(since, woken.get(left, since)), core, there, "S", left))
            found.append((time, core, left, state, came))
            last[core] = (time, came)
        elif event == "sched_wakeup" and (wakeup := WAKEUP.match(rest)):
            thread = int(wakeup[2])
            names[thread], woken[thread] = wakeup[1], time
            found.append((time, None, None, None, thread))
    names[NOBODY] = "nobody"
    return names, sorted(found, key=lambda event: event[0]), missing


names, found, missing = events(sys.stdin)
if not found:
    sys.exit("no events of the scheduler: see the command above")

# What each thread does, and whom each core runs.
does, runs = {}, {}
spent, idle, beside_ready, before = Counter(), 0.0, 0.0, found[0][0]
for time, core, left, state, came in found:
    passed, before = time - before, time
    for thread, what in does.items():
        spent[names[thread], what] += passed
    cores = sum(thread == NOBODY for thread in runs.values())
    idle += cores * passed
    if "ready" in does.values():
        beside_ready += cores * passed
    if core is None:
        if does.get(came) != "runs":
            does[came] = "ready"
        continue
    does[left] = "ready" if state.startswith("R") else "disk" if state.startswith("D") else "waits"
    does[came] = "runs"
    does.pop(NOBODY, None)
    runs[core] = came

total = found[-1][0] - found[0][0]
print("| Thread | runs | ready, another runs | waits for the disk |\n|---|---|---|---|")
for name in sorted({name for name, _ in spent}, key=lambda name: -spent[name, "runs"])[:8]:
    shares = (f"{spent[name, what] / total:.2f}" for what in ("runs", "ready", "disk"))
    print(f"| {name} | {' | '.join(shares)} |")
print(f"\nidle: {idle / total:.2f} cores; of it beside somebody who is ready: {beside_ready / max(idle, 1e-9):.2f}")
print(f"{len(found)} events, {missing} of them made up for switches that are missing")
