//! An API that a command talks to: the control plane's, or a cluster's.

use std::sync::Arc;

use atoll_client::dialing::TenantAddresses;
use atoll_client::memory;
use atoll_client::unreached::Cause;
use http::Method;
use serde_json::Value;

use crate::advice::Failure;
use crate::client::{Client, Problem};
use crate::kubeconfig::Context;

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

/// Who says what the commands have made.
const MANAGER: &str = "atoll-join";

/// Which one it is; advice depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Side {
    Above,
    /// With how to see whether it is there.
    Below(String),
}

pub struct Api {
    client: Client,
    /// What all paths begin with.
    base: String,
    side: Side,
}

impl Api {
    /// The control plane, in the workspace that paths begin with.
    pub fn above(context: &Context, base: &str) -> Result<Api, Failure> {
        Ok(Api { client: Client::new(context)?, base: base.to_string(), side: Side::Above })
    }

    /// A cluster, at whatever path of its server.
    pub fn below(context: &Context, look: String) -> Result<Api, Failure> {
        let mut client = Client::new(context)?;
        client.largest = [memory::ANSWER, memory::PARSED];
        Ok(Api { base: client.base.clone(), client, side: Side::Below(look) })
    }

    /// The same, connecting only to addresses that tenants may name. With `None` the address is not a tenant's choice.
    pub fn restricted(mut self, addresses: &Option<Arc<TenantAddresses>>) -> Api {
        self.client.tenants.clone_from(addresses);
        self
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where something is on the server.
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
            match (answer, smaller(&path)) {
                // A page of large objects is asked for again with fewer of them.
                (Err(Problem::Unreached(Cause::AnswerTooLarge, _)), Some(next)) => path = next,
                (answer, _) => return answer.map_err(|problem| self.explained(problem)),
            }
        }
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Problem> {
        self.call_as(method, path, "application/json", body).await
    }

    pub async fn get(&self, path: &str) -> Result<Value, Problem> {
        self.call(Method::GET, path, None).await
    }

    /// What is at `path`, if something is.
    pub async fn find(&self, path: &str) -> Result<Option<Value>, Problem> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            // A kind that nobody knows is refused in the same words, but for no object.
            Err(Problem::Refused(status)) if is_absent(&status) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// The same wherever on the server that is.
    pub async fn find_anywhere(&self, path: &str) -> Result<Option<Value>, Problem> {
        match self.client.call(Method::GET, path, None).await {
            Ok(found) => Ok(Some(found)),
            // Also if the kind itself is not known any longer.
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

    /// Creates what is not there yet, and leaves alone what is.
    pub async fn create_if_absent(&self, path: &str, object: &Value) -> Result<(), Problem> {
        match self.create(path, object).await {
            Err(problem) if !problem.is("AlreadyExists") => Err(problem),
            _ => Ok(()),
        }
    }

    /// Makes an object say what `object` says.
    pub async fn apply(&self, path: &str, object: &Value) -> Result<Value, Problem> {
        let path = self.at(&format!("{path}?fieldManager={MANAGER}&force=true"));
        self.client.patch(&path, APPLY, object).await.map_err(|problem| self.explained(problem))
    }

    /// Applies a configuration as a manager, unless that would take something from another one.
    pub async fn apply_as(
        &self,
        path: &str,
        manager: &str,
        object: &Value,
        dry_run: bool,
    ) -> Result<Value, Problem> {
        let dry_run = if dry_run { "&dryRun=All" } else { "" };
        let path = self.at(&format!("{path}?fieldManager={manager}&force=false{dry_run}"));
        self.client.patch(&path, APPLY, object).await.map_err(|problem| self.explained(problem))
    }

    /// Deletes this very object, or what is left of it.
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
        answer.map_err(|problem| self.explained(problem))
    }

    /// Deletes what may be there.
    pub async fn delete(&self, path: &str) -> Result<(), Problem> {
        match self.call(Method::DELETE, path, None).await {
            Err(problem) if !problem.is("NotFound") => Err(problem),
            _ => Ok(()),
        }
    }

    /// What helps against a problem with a cluster is not what helps against one with the control plane.
    fn explained(&self, problem: Problem) -> Problem {
        let Side::Below(look) = &self.side else { return problem };
        match problem {
            Problem::Elsewhere(_) => Problem::Failed(Failure::new(
                format!("{} does not answer as a Kubernetes cluster does", self.client.origin),
                format!("see what is there with: {look}"),
            )),
            Problem::Unreached(cause, failure) => {
                Problem::Failed(unreached(cause, &self.client.origin, failure.what, look))
            }
            Problem::Failed(failure) => Problem::Failed(Failure::new(failure.what, is_it_there(look))),
            refused @ Problem::Refused(_) => refused,
        }
    }
}

/// The same path with a smaller limit, if it has one that can be smaller.
fn smaller(path: &str) -> Option<String> {
    let start = path.find("limit=")? + "limit=".len();
    let digits = path[start..].bytes().take_while(u8::is_ascii_digit).count();
    let limit: usize = path[start..start + digits].parse().ok().filter(|limit| *limit > 1)?;
    Some(format!("{}{}{}", &path[..start], limit / 4 + usize::from(limit < 4), &path[start + digits..]))
}

fn is_it_there(look: &str) -> String {
    format!("is the cluster running, and can it be reached from here? See with: {look}")
}

/// Why a cluster is not reached, and what to do about that.
fn unreached(cause: Cause, origin: &str, what: String, look: &str) -> Failure {
    match cause {
        Cause::NameNotResolved => Failure::new(
            what,
            "does DNS know that name here (getent hosts)? If not, correct the server's address in the kubeconfig",
        ),
        Cause::TimedOut => {
            Failure::new(what, format!("is a firewall in the way, or is it too busy? See with: {look}"))
        }
        Cause::CertificateExpired => Failure::new(
            format!("the certificate of {origin} has expired"),
            "renew it there (with kubeadm: kubeadm certs renew apiserver), and see that the clocks are right: date",
        ),
        Cause::CertificateNotYetValid => Failure::new(
            format!("the certificate of {origin} is not valid yet"),
            "see that the clocks here and there are right: date",
        ),
        Cause::CertificateUntrusted => Failure::new(
            format!("{origin} has a certificate of another authority than the one in the kubeconfig"),
            "get the kubeconfig anew from whoever runs the cluster; if its authority is still the same, somebody else \
             answers at that address",
        ),
        Cause::CertificateForAnotherName => Failure::new(
            format!("{origin} has a certificate for another name"),
            "give the kubeconfig an address that is in the certificate",
        ),
        Cause::AnswerTooLarge | Cause::MemoryBudgetExceeded => Failure::new(
            what,
            format!("see what is so large there, and whether a proxy answers in its place: {look}"),
        ),
        Cause::AddressRefused => Failure::new(what, "join it in the root workspace instead"),
        Cause::ConnectionRefused | Cause::Unreachable => Failure::new(what, is_it_there(look)),
    }
}

fn is_absent(status: &atoll_meta::Status) -> bool {
    status.reason() == "NotFound" && status.details().is_some_and(|details| !details.name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::smaller;

    #[test]
    fn pages_become_smaller_until_they_have_one_object() {
        assert_eq!(smaller("/a?limit=500&continue=x").as_deref(), Some("/a?limit=125&continue=x"));
        assert_eq!(smaller("/a?x=1&limit=7").as_deref(), Some("/a?x=1&limit=1"));
        assert_eq!(smaller("/a?limit=2").as_deref(), Some("/a?limit=1"));
        assert_eq!((smaller("/a?limit=1"), smaller("/a"), smaller("/a?limit=")), (None, None, None));
    }
}
