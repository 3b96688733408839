//! Which clusters there are, where they are said to be, and how large.

use atoll_sim::Settings;

/// A cluster to be simulated.
pub struct ClusterShape {
    pub name: String,
    pub nodes: Settings,
}

/// What the first ones are called.
const NAMES: [&str; 6] = ["east", "west", "north", "south", "central", "coast"];
/// What a node has: processors and memory. Clusters are of different sizes, in turn.
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
    fn clusters_have_names_of_their_own_and_different_sizes() {
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
