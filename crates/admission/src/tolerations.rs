//! Default tolerations: a Pod stays for five minutes on a node that is not ready or unreachable.

// upstream: plugin/pkg/admission/defaulttolerationseconds/admission.go

use atoll_meta::Status;
use serde_json::{Value, json};

use crate::{Operation, Plugin, Request};

pub struct DefaultTolerationSeconds;

const KEYS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const SECONDS: i64 = 300;

impl Plugin for DefaultTolerationSeconds {
    fn handles(&self, request: &Request<'_>) -> bool {
        matches!(request.operation, Operation::Create | Operation::Update) && request.is_about("", "pods", "")
    }

    fn mutate(&self, _: &Request<'_>, pod: &mut Value) -> Result<(), Status> {
        let tolerations = &mut pod["spec"]["tolerations"];
        let missing = KEYS.map(|key| !tolerates(tolerations, key));
        for (key, _) in KEYS.iter().zip(missing).filter(|(_, missing)| *missing) {
            let toleration = json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": SECONDS,
            });
            match &mut *tolerations {
                Value::Array(all) => all.push(toleration),
                none => *none = json!([toleration]),
            }
        }
        Ok(())
    }
}

fn tolerates(tolerations: &Value, key: &str) -> bool {
    let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
    tolerations.as_array().into_iter().flatten().any(|toleration| {
        let (own, effect) = (text(toleration, "key"), text(toleration, "effect"));
        (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
    })
}
