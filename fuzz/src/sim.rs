//! Input of simulated clusters.

use atoll_meta::json;
use atoll_sim::{Fault, Faults};

use crate::{Accepted, lines};

/// A fault that is written and parsed again is equal, and can be applied.
pub fn fault(bytes: &[u8]) -> Accepted {
    let fault = Fault::from_json(&json::parse(bytes).ok()?.value).ok()?;
    assert_eq!(Fault::from_json(&fault.to_json()).as_ref(), Ok(&fault));
    assert!(!fault.to_string().is_empty());
    let faults = Faults::default();
    faults.add(fault.clone()).expect("a first fault can be added");
    faults.add(fault).expect("a second fault can be added");
    let now = faults.now();
    let _ = (now.latency(), now.jitter(), now.skew(), now.missing(), now.crashes("registry/app:1"));
    assert!((0.0..=1.0).contains(&now.loss()));
    Some(())
}

/// Any command and annotation of a container is interpreted. The input is the annotation, the command and a
/// script, one per line.
pub fn program(bytes: &[u8]) -> Accepted {
    let [after, command, script] = lines(bytes)?;
    let container = serde_json::json!({ "command": [command, "-c", script] });
    let pod = serde_json::json!({ "metadata": { "annotations": { "sim.atoll.dev/exit-after": after } } });
    let timed = atoll_sim::fuzzing::ends_by_itself(&container, &pod);
    let scripted = atoll_sim::fuzzing::ends_by_itself(&container, &serde_json::Value::Null);
    (timed || scripted).then_some(())
}

/// Any request to a kubelet is understood or rejected. The input is a path, a query and a proxied address,
/// one per line.
pub fn kubelet(bytes: &[u8]) -> Accepted {
    let [path, query, uri] = lines(bytes)?;
    atoll_sim::fuzzing::is_valid_request(path, query, uri).then_some(())
}
