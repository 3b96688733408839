"""Lists, pages and watches ConfigMaps with the Python client, and resumes its watch when told to.

Says what it saw on stdout, one JSON document a line; a line on stdin lets it go on.
"""

import json
import sys

from kubernetes import client, config, watch


def say(**what):
    print(json.dumps(what), flush=True)


def main(kubeconfig):
    config.load_kube_config(config_file=kubeconfig)
    api = client.CoreV1Api()

    # In pages, all of one moment.
    names, pages, revisions, token = [], 0, set(), None
    while True:
        page = api.list_namespaced_config_map("default", limit=40, _continue=token)
        names += [item.metadata.name for item in page.items]
        revisions.add(page.metadata.resource_version)
        pages, token = pages + 1, page.metadata._continue
        if not token:
            break
    selected = api.list_namespaced_config_map("default", label_selector="half in (even)")
    say(names=names, pages=pages, revisions=sorted(revisions), selected=len(selected.items))

    # Writes, as far as this client's users would.
    api.create_namespaced_config_map(
        "default", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="from-python"), data={"value": "0"})
    )
    change = [{"op": "replace", "path": "/data/value", "value": "1"}]
    api.patch_namespaced_config_map("from-python", "default", change)
    read = api.read_namespaced_config_map("from-python", "default")
    say(value=read.data["value"], labels=read.metadata.labels)
    try:
        api.read_namespaced_config_map("missing", "default")
    except client.ApiException as refused:
        say(code=refused.status, reason=json.loads(refused.body)["reason"])

    # From where the read was: first until told to stop, then, after a restart, from the last revision seen.
    seen, last = [], read.metadata.resource_version
    say(watching=True)
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
        say(seen=seen)
        seen = []


main(sys.argv[1])
