//! Compares Atoll's authorization with kube-apiserver's RBAC authorizer: the same roles and bindings on both,
//! the same access reviews, requests and attempts at privilege escalation. Atoll is tested in root and in a
//! workspace, and another workspace must not be affected.
//!
//! Everything is generated from a seed: `ATOLL_SEED` sets it, `ATOLL_QUESTIONS` sets the number of access
//! reviews.

#[path = "authorization/generated_roles.rs"]
mod generated_roles;

use atoll_differential::servers::{atoll_client, start_atoll, upstream_client};
use atoll_testkit::{Client, RequestContent, Upstream, wait};
use serde_json::{Value, json};

use generated_roles::{Draw, Question};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// Number of attempts to get the same reason from upstream, which evaluates bindings in random order.
const TRIES: usize = 60;

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// A server, or a workspace of one.
struct ApiServer {
    client: Client,
}

impl ApiServer {
    async fn apply(&self, objects: &[(String, Value)]) {
        for (path, object) in objects {
            self.client.post(path, object).await.expect(201);
        }
    }

    async fn ask(&self, question: &Question) -> Value {
        let answer = self.client.post(REVIEWS, question.review()).await;
        sorted(answer.expect(201)["status"].clone())
    }

    /// Sends a request as a user and returns its status, with the message if it is denied.
    async fn attempt(&self, method: &str, path: &str, body: &Value, user: (&str, &[String])) -> Value {
        let (user, groups) = user;
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let body = if body.is_null() { RequestContent::None } else { RequestContent::Json(body.clone()) };
        let method = method.parse().expect("a method");
        let answer = self.client.acting_as(user, &groups).request(method, path, body).await;
        let refused = answer.status == 403 || answer.json_or_null()["reason"] == "NotFound";
        let message = if refused { answer.json_or_null()["message"].clone() } else { Value::Null };
        sorted(json!({ "code": answer.status, "message": message }))
    }
}

/// Sorts the parts of a message that upstream lists in random order.
fn sorted(mut value: Value) -> Value {
    for field in ["reason", "message"] {
        let Some(text) = value[field].as_str() else { continue };
        let Some((before, rest)) = text.split_once(": RBAC: [").or_else(|| text.split_once("RBAC: [")) else {
            continue;
        };
        let Some((list, after)) = rest.rsplit_once(']') else { continue };
        let mut list: Vec<&str> = list.split(", ").collect();
        list.sort_unstable();
        value[field] = format!("{before} {} {after}", list.join(", ")).into();
    }
    value
}

/// Compares the responses of both servers to a question and returns the difference.
async fn compare(atoll_client: &ApiServer, upstream: &ApiServer, question: &Question) -> Option<String> {
    let atoll_result = atoll_client.ask(question).await;
    let mut last = Value::Null;
    for _ in 0..TRIES {
        last = upstream.ask(question).await;
        if atoll_result == last {
            return None;
        }
        if atoll_result["allowed"] != last["allowed"] {
            break;
        }
    }
    // If several bindings grant a request, the two servers may name different ones.
    let granted =
        |answer: &Value| answer["reason"].as_str().is_some_and(|why| why.starts_with("RBAC: allowed by "));
    if atoll_result["allowed"] == last["allowed"] && granted(&atoll_result) && granted(&last) {
        println!("allowed by different bindings: {question:?}: {atoll_result} instead of {last}");
        return None;
    }
    Some(format!("{question:?}: {atoll_result} instead of {last}"))
}

/// Waits until upstream's authorizer has seen the last object of each kind, because its informers are
/// independent.
async fn wait_for_authorizer(upstream: &ApiServer) {
    let base = "/apis/rbac.authorization.k8s.io/v1";
    let namespace = generated_roles::NAMESPACES[0];
    let rules = json!([{ "verbs": ["get"], "apiGroups": ["rbac-last"], "resources": ["things"] }]);
    for (role, kind, path) in [
        ("clusterroles", "ClusterRole", String::new()),
        ("roles", "Role", format!("/namespaces/{namespace}")),
    ] {
        let bindings = role.replace("roles", "rolebindings");
        let user = format!("rbac-last-{role}");
        let binding = json!({ "metadata": { "name": "rbac-last" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "rbac-last" },
            "subjects": [{ "kind": "User", "name": user }] });
        let written = json!({ "metadata": { "name": "rbac-last" }, "rules": rules });
        upstream.apply(&[(format!("{base}{path}/{role}"), written)]).await;
        upstream.apply(&[(format!("{base}{path}/{bindings}"), binding)]).await;
        let attributes = generated_roles::Attributes::Resource {
            group: "rbac-last".into(),
            resource: "things".into(),
            subresource: String::new(),
            namespace: namespace.into(),
            name: String::new(),
        };
        let asks = Question { user, groups: Vec::new(), verb: "get".into(), attributes };
        let what = format!("upstream's authorizer has seen the last of {role} and {bindings}");
        wait::eventually(&what, async || upstream.ask(&asks).await["allowed"] == true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorization_decisions_match_upstream() {
    let Some(real) = Upstream::shared() else { return };
    let atoll = start_atoll(&[]);
    let seed = number("ATOLL_SEED").unwrap_or(1);
    let mut draw = Draw::new(seed as u64);
    let atoll_client = atoll_client(&atoll);
    let workspaces = "/apis/atoll.dev/v1alpha1/workspaces";
    for name in ["rbac-with", "rbac-without"] {
        atoll_client.post(workspaces, json!({ "metadata": { "name": name } })).await.expect(201);
    }
    let upstream = ApiServer { client: upstream_client(real) };
    let [with, without] = ["root:rbac-with", "root:rbac-without"]
        .map(|workspace| ApiServer { client: atoll_client.workspace(workspace) });
    let root = ApiServer { client: atoll_client };
    let objects = generated_roles::objects(&mut draw);
    let questions: Vec<Question> =
        (0..number("ATOLL_QUESTIONS").unwrap_or(500)).map(|_| Question::draw(&mut draw)).collect();
    let mut wrong = Vec::new();
    for question in &questions {
        wrong.extend(compare(&without, &upstream, question).await);
    }
    let before = questions.len();
    upstream.apply(&objects).await;
    root.apply(&objects).await;
    with.apply(&objects).await;
    wait_for_authorizer(&upstream).await;
    let (mut allowed, mut requests) = (0, 0);
    for question in &questions {
        wrong.extend(compare(&root, &upstream, question).await);
        wrong.extend(compare(&with, &upstream, question).await);
        allowed += usize::from(root.ask(question).await["allowed"] == true);
        // Only resource requests are compared, because Atoll does not serve all of upstream's other paths.
        if let (Some((method, path)), generated_roles::Attributes::Resource { .. }) =
            (question.request(), &question.attributes)
        {
            requests += 1;
            let user = (question.user.as_str(), question.groups.as_slice());
            let atoll_result = root.attempt(method, &path, &Value::Null, user).await;
            let upstream_result = upstream.attempt(method, &path, &Value::Null, user).await;
            if atoll_result != upstream_result {
                wrong.push(format!(
                    "{method} {path} as {user:?}: {atoll_result} instead of {upstream_result}"
                ));
            }
        }
    }
    let attempts = number("ATOLL_QUESTIONS").unwrap_or(500) / 2;
    let mut refused = 0;
    for number in 0..attempts {
        let (user, groups, path, object) = draw.attempt(number);
        let (user, path) = ((user.as_str(), groups.as_slice()), format!("{path}?dryRun=All"));
        let atoll_result = root.attempt("POST", &path, &object, user).await;
        let upstream_result = upstream.attempt("POST", &path, &object, user).await;
        refused += usize::from(atoll_result["code"] == 403);
        if atoll_result != upstream_result {
            wrong.push(format!(
                "POST {path} as {user:?} {object}: {atoll_result} instead of {upstream_result}"
            ));
        }
    }
    println!(
        "seed {seed}: {} access reviews ({allowed} of {before} allowed), {requests} requests, {attempts} grants \
         ({refused} denied); {} differ",
        3 * before,
        wrong.len()
    );
    assert!(allowed * 20 > before && allowed * 20 < before * 19, "{allowed} of {before} are allowed");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
