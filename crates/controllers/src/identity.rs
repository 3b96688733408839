//! Controllers of identities and rights: certificates, ServiceAccounts with their tokens, and ClusterRoles.

pub mod certificates;
pub mod cluster_role_aggregation;
pub mod service_account_and_root_ca;
pub mod service_account_tokens;
