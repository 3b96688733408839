//! Instructions that are printed when a playground is ready.

use std::time::Duration;

use super::directory::PlaygroundDirectory;
use super::layout::ClusterShape;
use crate::plane::ControlPlane;
use crate::process::{callable, quoted_path};

pub fn ready(
    directory: &PlaygroundDirectory,
    planes: &[ControlPlane],
    clusters: &[ClusterShape],
    took: Duration,
) {
    let atoll = std::env::args().next().unwrap_or_else(|| "atoll".into());
    let names: Vec<&str> = clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    let lines = lines(&quoted_path(&directory.kubeconfig()), &callable(&atoll), &names);
    println!("The playground is ready, after {:.1} s. Try, in another terminal:", took.as_secs_f64());
    println!();
    for (remark, commands) in lines {
        println!("  # {remark}");
        for command in commands {
            println!("  {command}");
        }
        println!();
    }
    println!(
        "The kubeconfig has a context for each of {}; set KUBECONFIG to it to omit --kubeconfig.",
        planes.iter().map(|plane| plane.name.as_str()).collect::<Vec<_>>().join(", ")
    );
    println!("ctrl-c stops it; the same command resumes it; --reset deletes its data and starts anew.");
}

/// The instructions: a remark, and commands that work as they are.
fn lines(kubeconfig: &str, atoll: &str, clusters: &[&str]) -> Vec<(String, Vec<String>)> {
    let kubectl = format!("kubectl --kubeconfig {kubeconfig}");
    let mut lines = vec![(
        "the clusters that have joined".to_string(),
        vec![format!("{kubectl} get clusters.atoll.dev")],
    )];
    let (Some(first), Some(last)) = (clusters.first(), clusters.last()) else { return lines };
    let at = format!("--kubeconfig {kubeconfig} --context {first}");
    lines.push((
        "the sample application as one object".into(),
        vec![format!("{kubectl} get deployments,services,configmaps -l app=hello")],
    ));
    lines.push((
        format!("its share in {first}, and the nodes there"),
        vec![
            format!("{kubectl} --context {first} get pods -o wide"),
            format!("{kubectl} --context {first} get nodes -L topology.kubernetes.io/zone"),
        ],
    ));
    lines.push((
        format!("move all of it to {last}"),
        vec![
            format!("{kubectl} annotate deployment hello atoll.dev/clusters={last} --overwrite"),
            format!("{kubectl} --context {last} get pods -o wide"),
        ],
    ));
    lines.push((
        "an application of your own, placed without further action".into(),
        vec![
            format!("{kubectl} create deployment web --image=nginx --replicas=3"),
            format!("{kubectl} get deployment web"),
        ],
    ));
    lines.push((
        format!("make {first} slow, see the effect, and undo it"),
        vec![
            format!("{atoll} sim fault add slow --latency 500ms {at}"),
            format!("{kubectl} --context {first} get pods"),
            format!("{atoll} sim fault clear {at}"),
        ],
    ));
    lines
}
