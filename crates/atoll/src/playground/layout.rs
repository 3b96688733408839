//! The names, regions and sizes of the simulated clusters.

use atoll_sim::Settings;

/// The layout of a simulated cluster.
pub struct ClusterShape {
    pub name: String,
    pub nodes: Settings,
}

/// Names of the first clusters.
const NAMES: [&str; 6] = ["east", "west", "north", "south", "central", "coast"];
/// CPU and memory of the nodes, assigned to clusters in turn.
const SIZES: [(&str, &str); 3] = [("8", "32Gi"), ("4", "16Gi"), ("16", "64Gi")];
const ZONES: [&str; 3] = ["a", "b", "c"];

pub fn clusters(count: usize, nodes: usize) -> Vec<ClusterShape> {
    (0..count).map(|position| cluster(position, nodes)).collect()
}

fn cluster(position: usize, nodes: usize) -> ClusterShape {
    let name = match NAMES.get(position) {
        Some(name) => (*name).to_string(),
        None => format!("region-{}", position + 1),
    };
    let (cpu, memory) = SIZES[position % SIZES.len()];
    let nodes = Settings {
        name: name.clone(),
        nodes,
        cpu: cpu.into(),
        memory: memory.into(),
        region: name.clone(),
        zones: ZONES.iter().map(|zone| format!("{name}-{zone}")).collect(),
        ..Settings::default()
    };
    ClusterShape { name, nodes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_have_unique_names_and_different_sizes() {
        let clusters = clusters(20, 5);
        let mut names: Vec<&str> = clusters.iter().map(|cluster| cluster.name.as_str()).collect();
        assert_eq!(names[..3], ["east", "west", "north"]);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 20);
        assert_ne!(clusters[0].nodes.cpu, clusters[1].nodes.cpu);
        assert_eq!(clusters[1].nodes.zones, ["west-a", "west-b", "west-c"]);
    }
}
