//! What is told when a playground is ready: where everything is, and what to try.

use std::time::Duration;

use super::layout::ClusterShape;
use super::record::Place;
use crate::plane::Plane;
use crate::process::{quoted, quoted_path};

pub fn ready(place: &Place, planes: &[Plane], clusters: &[ClusterShape], took: Duration) {
    let atoll = std::env::args().next().unwrap_or_else(|| "atoll".into());
    let names: Vec<&str> = clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    let lines = lines(&quoted_path(&place.kubeconfig()), &quoted(&atoll), &names);
    println!("The playground is ready, after {:.1} s. Try, in another terminal:", took.as_secs_f64());
    println!();
    for (remark, line) in lines {
        println!("  # {remark}\n  {line}\n");
    }
    println!(
        "The kubeconfig has a context for each of {}; set KUBECONFIG to it and leave out --kubeconfig.",
        planes.iter().map(|plane| plane.name.as_str()).collect::<Vec<_>>().join(", ")
    );
    println!("ctrl-c stops it; the same command resumes it, and with --reset it begins anew.");
}

/// What to try, and why.
fn lines(kubeconfig: &str, atoll: &str, clusters: &[&str]) -> Vec<(String, String)> {
    let kubectl = format!("kubectl --kubeconfig {kubeconfig}");
    let at = format!("--kubeconfig {kubeconfig}");
    let mut lines = vec![("the control plane".to_string(), format!("{kubectl} get namespaces"))];
    let Some(first) = clusters.first() else { return lines };
    let last = clusters.last().unwrap_or(first);
    let mut add = |remark: &str, line: String| lines.push((remark.into(), line));
    add(
        &format!("the nodes of {first}, and where they are said to be"),
        format!("{kubectl} --context {first} get nodes -L topology.kubernetes.io/zone"),
    );
    add(
        "the sample application",
        format!("{kubectl} --context {first} get deployments,services,configmaps -l app=hello"),
    );
    add(
        &format!("more of it in {last}"),
        format!("{kubectl} --context {last} scale deployment hello --replicas 10"),
    );
    add(
        &format!("let {first} be slow, look what that is like, and end it"),
        format!("{atoll} sim fault add slow --latency 500ms {at} --context {first}"),
    );
    add("", format!("{kubectl} --context {first} get pods"));
    add("", format!("{atoll} sim fault clear {at} --context {first}"));
    lines
}
