#!/usr/bin/env python3
"""Counts what the server does for one request: allocations, copies of memory, instructions.

    bench/allocations.py BINARY DATABASE_URL

The server runs under callgrind, which counts calls and instructions and no time, so the machine need not be quiet. Each
request is made forty times over one connection on thirty clusters with four adapters, after a few that do not count.
Needs valgrind and an empty database. Prints the rows of the table in docs/storage.md.
"""

import glob
import http.client
import json
import re
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta

BINARY, DATABASE = sys.argv[1:3]
TIMES = 40
CLUSTERS = "/api/hyperfleet/v1/clusters"
ADAPTERS = ["validator", "dns", "network", "provisioner"]
ALLOCATORS = {f"_rjem_{name}" for name in ("malloc", "mallocx", "calloc", "realloc", "rallocx")}
CONFIG = f"""
server: {{port: 8400, jwt: {{enabled: false}}}}
health: {{port: 8401}}
metrics: {{port: 8402}}
entities: [{{kind: Cluster, plural: clusters, required_adapters: [{", ".join(ADAPTERS)}]}}]
"""

directory = tempfile.mkdtemp()
connection = http.client.HTTPConnection("localhost", 8400, timeout=60)
number = 0


def unique():
    global number
    number += 1
    return number


def call(method, path, body=None, kind="application/json"):
    text = None if body is None else json.dumps(body)
    connection.request(method, path, text, {} if body is None else {"content-type": kind})
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status in (200, 201), f"{method} {path}: {answer.status} {content}"
    return json.loads(content)


def create():
    network = {"pod_cidr": "10.128.0.0/14"}
    spec = {"region": "eu-west-1", "version": "4.17", "nodes": 3, "network": network}
    labels = {"environment": "production", "team": "fleet"}
    return call("POST", CLUSTERS, {"kind": "Cluster", "name": f"c-{unique()}", "spec": spec, "labels": labels})


def report(path, adapter, message, run):
    said = {"status": "True", "reason": "JobSucceeded", "message": message}
    moment = datetime(2026, 1, 1) + timedelta(seconds=unique())
    call("PUT", f"{path}/statuses", {
        "adapter": adapter, "observed_generation": 1, "observed_time": moment.isoformat() + "Z",
        "conditions": [{"type": kind, **said} for kind in ("Available", "Applied", "Health")],
        "data": {"run": run, "url": "https://example.com/x"},
    })


def count(dump):
    """Calls of functions, and instructions, of one dump."""
    calls, instructions, names, called = {}, 0, {}, ""
    for line in open(dump, errors="replace"):
        if match := re.match(r"(c?fn)=\((\d+)\)(?: (.*))?$", line.rstrip()):
            if match[3]:
                names[match[2]] = match[3]
            if match[1] == "cfn":
                called = names.get(match[2], "").split("'")[0]
        elif match := re.match(r"calls=(\d+)", line):
            calls[called] = calls.get(called, 0) + int(match[1])
        elif match := re.match(r"totals: (\d+)", line):
            instructions += int(match[1])
    return calls, instructions


def control(*options):
    command = ["callgrind_control", *options, str(server.pid)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def measure(name, request):
    for _ in range(15):
        request()
    control("-i", "on")
    control("-z")
    for _ in range(TIMES):
        request()
    known = set(glob.glob(f"{directory}/out*"))
    control("-d")
    control("-i", "off")
    while not (new := set(glob.glob(f"{directory}/out.*")) - known):
        time.sleep(0.1)
    time.sleep(1)
    counted = [count(dump) for dump in new]
    of = lambda wanted: sum(n for calls, _ in counted for name, n in calls.items() if wanted(name)) / TIMES
    allocations = of(ALLOCATORS.__contains__)
    copies = of(lambda name: "memmove" in name or "memcpy" in name)
    instructions = sum(instructions for _, instructions in counted) / TIMES / 1000
    print(f"| {name} | {allocations:.0f} | {copies:.0f} | {instructions:.0f} |", flush=True)


with open(f"{directory}/config.yaml", "w") as config:
    config.write(CONFIG)
callgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={directory}/out"]
serve = [BINARY, "serve", "--config", f"{directory}/config.yaml", "--database-url", DATABASE]
server = subprocess.Popen(callgrind + serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    while True:
        try:
            call("GET", CLUSTERS)
            break
        except OSError:
            connection.close()
            assert server.poll() is None, "the server ended at once; is the port free, and the database there?"
            time.sleep(1)
    paths = [create()["href"] for _ in range(30)]
    for path in paths:
        for adapter in ADAPTERS:
            report(path, adapter, "applied", "1")
    turn = lambda: paths[unique() % len(paths)]
    print("| A request, alone | Allocations | Copies | Instructions, thousands |\n|---|---|---|---|")
    measure("get", lambda: call("GET", turn()))
    measure("page of 20", lambda: call("GET", f"{CLUSTERS}?pageSize=20"))
    measure("page of 20 by a label", lambda: call("GET", f"{CLUSTERS}?pageSize=20&search=labels.team%3D'fleet'"))
    measure("reports on a cluster", lambda: call("GET", f"{turn()}/statuses"))
    measure("explain", lambda: call("GET", f"{turn()}/explain"))
    measure("page of the timeline", lambda: call("GET", f"{turn()}/timeline"))
    measure("report that changes something", lambda: report(turn(), "dns", f"applied {unique()}", str(unique())))
    measure("report that only moves times", lambda: report(turn(), "validator", "applied", "1"))
    measure("create", create)
    patch = {"kind": "application/merge-patch+json"}
    measure("patch", lambda: call("PATCH", turn(), {"spec": {"nodes": unique()}}, **patch))
finally:
    server.terminate()
