//! The API of a control plane or of a member cluster.

use std::sync::Arc;

use atoll_client::connect_error::Cause;
use atoll_client::dialing::TenantAddresses;
use atoll_client::kubeconfig::Context;
use atoll_client::memory_limits;
use http::Method;
use serde_json::Value;

use crate::Failure;
use crate::client::{Client, Problem};

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

/// Field manager of the objects that the commands apply.
const MANAGER: &str = "atoll-join";

/// The side that the API belongs to; hints depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Side {
    Above,
    /// A member cluster, with the command that shows whether it can be reached.
    Below(String),
}

pub struct Api {
    client: Client,
    /// The prefix of all paths.
    base: String,
    side: Side,
}

impl Api {
    /// The API of the control plane, in the workspace at `base`.
    pub fn above(context: &Context, base: &str) -> Result<Api, Failure> {
        Ok(Api { client: Client::new(context)?, base: base.to_string(), side: Side::Above })
    }

    /// The API of a member cluster. `check_command` shows whether it can be reached.
    pub fn below(context: &Context, check_command: String) -> Result<Api, Failure> {
        let mut client = Client::new(context)?;
        client.max_response = [memory_limits::MAX_RESPONSE, memory_limits::MAX_PARSED];
        Ok(Api { base: client.base.clone(), client, side: Side::Below(check_command) })
    }

    /// The API of a member cluster, through the control plane at `context`. `path` is the full path of the
    /// cluster's API there.
    pub fn through(context: &Context, path: &str, check_command: String) -> Result<Api, Failure> {
        let api = Api::below(context, check_command)?;
        Ok(Api { base: path.to_string(), ..api })
    }

    /// Restricts connections to addresses that tenants may choose. `None` means that no tenant has chosen the
    /// address.
    pub fn restricted(self, addresses: &Option<Arc<TenantAddresses>>) -> Api {
        match addresses {
            Some(addresses) => Api { client: self.client.for_tenant(addresses.clone()), ..self },
            None => self,
        }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The full path on the server.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub async fn call_as(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<&Value>,
    ) -> Result<Value, Problem> {
        let mut path = self.at(path);
        loop {
            let answer = self.client.call_as(method.clone(), &path, accept, body).await;
            match (answer, with_smaller_limit(&path)) {
                // The page has large objects: request it again with a smaller limit.
                (Err(Problem::Unreached(Cause::AnswerTooLarge, _)), Some(next)) => path = next,
                (answer, _) => return answer.map_err(|problem| self.with_cluster_hint(problem)),
            }
        }
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Problem> {
        self.call_as(method, path, "application/json", body).await
    }

    pub async fn get(&self, path: &str) -> Result<Value, Problem> {
        self.call(Method::GET, path, None).await
    }

    /// Gets the object at `path`, or `None` if it does not exist.
    pub async fn find(&self, path: &str) -> Result<Option<Value>, Problem> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            // An unknown resource is also NotFound, but its details have no name.
            Err(Problem::Refused(status)) if is_absent(&status) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// The same for an absolute path on the server.
    pub async fn find_anywhere(&self, path: &str) -> Result<Option<Value>, Problem> {
        match self.client.call(Method::GET, path, None).await {
            Ok(found) => Ok(Some(found)),
            // Also if the resource is no longer served.
            Err(problem) if problem.is("NotFound") => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, Problem> {
        self.call(Method::POST, path, Some(object)).await
    }

    pub async fn put(&self, path: &str, object: &Value) -> Result<Value, Problem> {
        self.call(Method::PUT, path, Some(object)).await
    }

    /// Creates an object, or leaves the existing one unchanged.
    pub async fn create_if_absent(&self, path: &str, object: &Value) -> Result<(), Problem> {
        match self.create(path, object).await {
            Err(problem) if !problem.is("AlreadyExists") => Err(problem),
            _ => Ok(()),
        }
    }

    /// Applies an object with server-side apply, forcing conflicts.
    pub async fn apply(&self, path: &str, object: &Value) -> Result<Value, Problem> {
        let path = self.at(&format!("{path}?fieldManager={MANAGER}&force=true"));
        self.client.patch(&path, APPLY, object).await.map_err(|problem| self.with_cluster_hint(problem))
    }

    /// Applies an object as a field manager, without forcing conflicts.
    pub async fn apply_as(
        &self,
        path: &str,
        manager: &str,
        object: &Value,
        dry_run: bool,
    ) -> Result<Value, Problem> {
        let dry_run = if dry_run { "&dryRun=All" } else { "" };
        let path = self.at(&format!("{path}?fieldManager={manager}&force=false{dry_run}"));
        self.client.patch(&path, APPLY, object).await.map_err(|problem| self.with_cluster_hint(problem))
    }

    /// Deletes the object if the preconditions hold; a missing object is no failure.
    pub async fn delete_this(&self, path: &str, preconditions: Value) -> Result<(), Problem> {
        let options = serde_json::json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": preconditions,
        });
        match self.call(Method::DELETE, path, Some(&options)).await {
            Err(problem) if !problem.is("NotFound") => Err(problem),
            _ => Ok(()),
        }
    }

    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Value, Problem> {
        let answer = self.client.patch(&self.at(path), MERGE, patch).await;
        answer.map_err(|problem| self.with_cluster_hint(problem))
    }

    /// Deletes the object; a missing object is no failure.
    pub async fn delete(&self, path: &str) -> Result<(), Problem> {
        match self.call(Method::DELETE, path, None).await {
            Err(problem) if !problem.is("NotFound") => Err(problem),
            _ => Ok(()),
        }
    }

    /// Replaces the hints for the control plane by hints for a member cluster.
    fn with_cluster_hint(&self, problem: Problem) -> Problem {
        let Side::Below(check_command) = &self.side else { return problem };
        match problem {
            Problem::NotAtoll(_) => Problem::Failed(Failure::new(
                format!("{} does not respond like a Kubernetes API server", self.client.origin),
                format!("check it with: {check_command}"),
            )),
            Problem::Unreached(cause, failure) => {
                Problem::Failed(unreachable_hint(cause, &self.client.origin, failure.message, check_command))
            }
            Problem::Failed(failure) => {
                Problem::Failed(Failure::new(failure.message, reachability_hint(check_command)))
            }
            refused @ Problem::Refused(_) => refused,
        }
    }
}

/// The same path with a smaller limit, if it has a limit above one.
fn with_smaller_limit(path: &str) -> Option<String> {
    let start = path.find("limit=")? + "limit=".len();
    let digits = path[start..].bytes().take_while(u8::is_ascii_digit).count();
    let limit: usize = path[start..start + digits].parse().ok().filter(|limit| *limit > 1)?;
    Some(format!("{}{}{}", &path[..start], limit / 4 + usize::from(limit < 4), &path[start + digits..]))
}

fn reachability_hint(check_command: &str) -> String {
    format!("is the cluster running, and can it be reached from here? Check with: {check_command}")
}

/// The message and hint for an unreachable cluster.
fn unreachable_hint(cause: Cause, origin: &str, what: String, check_command: &str) -> Failure {
    match cause {
        Cause::NameNotResolved => Failure::new(
            what,
            "does DNS resolve that name here (getent hosts)? If not, correct the server's address in the kubeconfig",
        ),
        Cause::TimedOut => Failure::new(
            what,
            format!("is a firewall in the way, or is it too busy? Check with: {check_command}"),
        ),
        Cause::CertificateExpired => Failure::new(
            format!("the certificate of {origin} has expired"),
            "renew it there (with kubeadm: kubeadm certs renew apiserver), and check the clocks: date",
        ),
        Cause::CertificateNotYetValid => Failure::new(
            format!("the certificate of {origin} is not valid yet"),
            "check the clocks here and there: date",
        ),
        Cause::CertificateUntrusted => Failure::new(
            format!("the certificate of {origin} is not signed by the authority in the kubeconfig"),
            "get a new kubeconfig from the cluster's administrator; if its authority is still the same, another server \
             answers at that address",
        ),
        Cause::CertificateForAnotherName => Failure::new(
            format!("the certificate of {origin} is for another name"),
            "use an address in the kubeconfig that the certificate contains",
        ),
        Cause::AnswerTooLarge | Cause::MemoryBudgetExceeded => Failure::new(
            what,
            format!(
                "check which object is so large, and whether a proxy responds instead of the server: {check_command}"
            ),
        ),
        Cause::AddressRefused => Failure::new(what, "join the cluster in the root workspace instead"),
        Cause::ConnectionRefused | Cause::Unreachable => Failure::new(what, reachability_hint(check_command)),
    }
}

fn is_absent(status: &atoll_meta::Status) -> bool {
    status.reason() == "NotFound" && status.details().is_some_and(|details| !details.name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::with_smaller_limit;

    #[test]
    fn limits_shrink_to_one() {
        assert_eq!(with_smaller_limit("/a?limit=500&continue=x").as_deref(), Some("/a?limit=125&continue=x"));
        assert_eq!(with_smaller_limit("/a?x=1&limit=7").as_deref(), Some("/a?x=1&limit=1"));
        assert_eq!(with_smaller_limit("/a?limit=2").as_deref(), Some("/a?limit=1"));
        assert_eq!(
            (with_smaller_limit("/a?limit=1"), with_smaller_limit("/a"), with_smaller_limit("/a?limit=")),
            (None, None, None)
        );
    }
}
