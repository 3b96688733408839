//! CustomResourceDefinitions in clusters. Deleting one deletes every object of its type, no matter
//! who created it, and checking for such objects first would be a race. Atoll therefore never deletes a
//! definition in a cluster: it removes its own labels, annotations and field ownership, and reports how an
//! administrator of the cluster can delete it.

/// Whether a resource is that of CustomResourceDefinitions, in any version.
pub fn is_definition(group: &str, resource: &str) -> bool {
    (group, resource) == ("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Returns the command that deletes a definition, for a user whose current context is the cluster.
pub fn delete_command(name: &str) -> String {
    format!("kubectl delete customresourcedefinition {name}")
}

/// Returns why a definition stays in a cluster, with the command that deletes it.
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
    fn definitions_are_recognized_by_group_and_resource() {
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
    fn message_ends_with_the_command() {
        let message = stays("east", "widgets.example.com");
        assert!(
            message.ends_with("cluster east: kubectl delete customresourcedefinition widgets.example.com"),
            "{message}"
        );
    }
}
