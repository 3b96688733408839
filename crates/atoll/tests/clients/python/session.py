"""Lists, pages and watches ConfigMaps with the Python client, and resumes its watch on request.

Prints its results to stdout, one JSON document per line. It continues after a line on stdin.
"""

import json
import sys

from kubernetes import client, config, watch


def report(**fields):
    print(json.dumps(fields), flush=True)


def main(kubeconfig):
    config.load_kube_config(config_file=kubeconfig)
    api = client.CoreV1Api()

    # Pages must all have one revision.
    names, pages, revisions, token = [], 0, set(), None
    while True:
        page = api.list_namespaced_config_map("default", limit=40, _continue=token)
        names += [item.metadata.name for item in page.items]
        revisions.add(page.metadata.resource_version)
        pages, token = pages + 1, page.metadata._continue
        if not token:
            break
    selected = api.list_namespaced_config_map("default", label_selector="half in (even)")
    report(names=names, pages=pages, revisions=sorted(revisions), selected=len(selected.items))

    # Typical writes.
    api.create_namespaced_config_map(
        "default", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="from-python"), data={"value": "0"})
    )
    change = [{"op": "replace", "path": "/data/value", "value": "1"}]
    api.patch_namespaced_config_map("from-python", "default", change)
    read = api.read_namespaced_config_map("from-python", "default")
    report(value=read.data["value"], labels=read.metadata.labels)
    try:
        api.read_namespaced_config_map("missing", "default")
    except client.ApiException as refused:
        report(code=refused.status, reason=json.loads(refused.body)["reason"])

    # Watches from the revision of the read, then after a restart from the last revision.
    seen, last = [], read.metadata.resource_version
    report(watching=True)
    for until in ("stop-one", "stop-two"):
        sys.stdin.readline()
        stream = watch.Watch()
        for event in stream.stream(
            api.list_namespaced_config_map, "default", resource_version=last, timeout_seconds=180
        ):
            item = event["object"]
            last = item.metadata.resource_version
            seen.append([event["type"], item.metadata.name, (item.data or {}).get("value")])
            if item.metadata.name == until:
                stream.stop()
        report(seen=seen)
        seen = []


main(sys.argv[1])
