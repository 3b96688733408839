//! CustomResourceDefinitions in clusters. Deleting one deletes every object of its type, whoever created those, and looking
//! for such objects first would be a race. Atoll therefore never deletes a definition in a cluster: it removes its own labels,
//! annotations and field ownership, and says how an administrator of the cluster deletes it.

/// Whether a resource is that of CustomResourceDefinitions, in whatever version.
pub fn is_definition(group: &str, resource: &str) -> bool {
    (group, resource) == ("apiextensions.k8s.io", "customresourcedefinitions")
}

/// The command that deletes a definition, for somebody whose current context is the cluster.
pub fn delete_command(name: &str) -> String {
    format!("kubectl delete customresourcedefinition {name}")
}

/// Why a definition stays in a cluster, and what to run there if it is to go.
pub fn stays(cluster: &str, name: &str) -> String {
    format!(
        "CustomResourceDefinition {name} stays in cluster {cluster} and is no longer managed by Atoll: deleting it would delete \
         all objects of its type, including those of others. To delete it with all of them, run with a kubeconfig of cluster \
         {cluster}: {}",
        delete_command(name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_known_by_group_and_resource() {
        for (group, resource, expected) in [
            ("apiextensions.k8s.io", "customresourcedefinitions", true),
            ("", "customresourcedefinitions", false),
            ("apiextensions.k8s.io", "other", false),
            ("example.com", "customresourcedefinitions", false),
        ] {
            assert_eq!(is_definition(group, resource), expected, "{group}/{resource}");
        }
    }

    #[test]
    fn the_message_ends_with_the_command() {
        let message = stays("east", "widgets.example.com");
        assert!(
            message.ends_with("cluster east: kubectl delete customresourcedefinition widgets.example.com"),
            "{message}"
        );
    }
}
