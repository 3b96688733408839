//! Atoll decides as kube-apiserver's RBAC authorizer does: the same roles and bindings on both, the same questions, requests
//! and attempts to grant more than one has. In Atoll the same again in a workspace, and nothing of it in another.
//!
//! Everything is drawn from a seed; `ATOLL_SEED` tries another one, `ATOLL_QUESTIONS` asks more.

#[path = "authorization/world.rs"]
mod world;

use atoll_testkit::{Answer, Atoll, Client, Upstream, request, wait};
use http::HeaderValue;
use serde_json::{Value, json};

use world::{Draw, Question};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// How often upstream is asked again for a reason: it looks at bindings in no order.
const TRIES: usize = 60;

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// A server, or a workspace of one.
struct Place<'a> {
    client: &'a Client,
    base: &'static str,
}

impl Place<'_> {
    async fn send(&self, method: &str, path: &str, body: &Value, user: Option<(&str, &[String])>) -> Answer {
        let mut request = request(method, &format!("{}{path}", self.base), body);
        let text = |text: &str| HeaderValue::from_str(text).expect("a header");
        if let Some((user, groups)) = user {
            request.headers_mut().insert("impersonate-user", text(user));
            for group in groups {
                request.headers_mut().append("impersonate-group", text(group));
            }
        }
        self.client.send(request).await.expect("an answer")
    }

    async fn apply(&self, objects: &[(String, Value)]) {
        for (path, object) in objects {
            let answer = self.send("POST", path, object, None).await;
            assert_eq!(answer.status, 201, "{path}: {}", answer.text());
        }
    }

    async fn ask(&self, question: &Question) -> Value {
        let answer = self.send("POST", REVIEWS, &question.review(), None).await;
        assert_eq!(answer.status, 201, "{question:?}: {}", answer.text());
        settled(answer.json()["status"].clone())
    }

    /// The status of a request in somebody's name and, if it is refused, the words.
    async fn attempt(&self, method: &str, path: &str, body: &Value, user: (&str, &[String])) -> Value {
        let answer = self.send(method, path, body, Some(user)).await;
        let refused = answer.status == 403 || answer.json()["reason"] == "NotFound";
        let message = if refused { answer.json()["message"].clone() } else { Value::Null };
        settled(json!({ "code": answer.status, "message": message }))
    }
}

/// Without the order in which upstream happens to list what is missing.
fn settled(mut value: Value) -> Value {
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

/// Asks both and says how they differ.
async fn compare(ours: &Place<'_>, theirs: &Place<'_>, question: &Question) -> Option<String> {
    let own = ours.ask(question).await;
    let mut last = Value::Null;
    for _ in 0..TRIES {
        last = theirs.ask(question).await;
        if own == last {
            return None;
        }
        if own["allowed"] != last["allowed"] {
            break;
        }
    }
    // Some orders upstream never takes, and then each names another of several bindings that grant it.
    let granted =
        |answer: &Value| answer["reason"].as_str().is_some_and(|why| why.starts_with("RBAC: allowed by "));
    if own["allowed"] == last["allowed"] && granted(&own) && granted(&last) {
        println!("for another reason: {question:?}: {own} instead of {last}");
        return None;
    }
    Some(format!("{question:?}: {own} instead of {last}"))
}

/// Upstream's authorizer hears of what is written some time later, of each kind by itself: waits for the last of each.
async fn hear(theirs: &Place<'_>) {
    let base = "/apis/rbac.authorization.k8s.io/v1";
    let namespace = world::NAMESPACES[0];
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
        theirs.apply(&[(format!("{base}{path}/{role}"), written)]).await;
        theirs.apply(&[(format!("{base}{path}/{bindings}"), binding)]).await;
        let about = world::About::Resource {
            group: "rbac-last".into(),
            resource: "things".into(),
            subresource: String::new(),
            namespace: namespace.into(),
            name: String::new(),
        };
        let asks = Question { user, groups: Vec::new(), verb: "get".into(), about };
        let what = format!("upstream knows of the last of {role} and {bindings}");
        wait::eventually(&what, async || theirs.ask(&asks).await["allowed"] == true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn atoll_decides_as_upstreams_authorizer() {
    let Some(real) = Upstream::shared() else { return };
    let atoll = Atoll::start_with(&["--controllers=false"]);
    let seed = number("ATOLL_SEED").unwrap_or(1);
    let mut draw = Draw::new(seed as u64);
    let (theirs, ours) = (real.client(), atoll.client());
    let workspaces = "/apis/atoll.dev/v1alpha1/workspaces";
    for name in ["rbac-with", "rbac-without"] {
        let answer =
            ours.post(workspaces, &json!({ "metadata": { "name": name } })).await.expect("an answer");
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let theirs = Place { client: &theirs, base: "" };
    let [root, with, without] = ["", "/clusters/root:rbac-with", "/clusters/root:rbac-without"]
        .map(|base| Place { client: &ours, base });
    let objects = world::objects(&mut draw);
    let questions: Vec<Question> =
        (0..number("ATOLL_QUESTIONS").unwrap_or(500)).map(|_| Question::draw(&mut draw)).collect();
    let mut wrong = Vec::new();
    for question in &questions {
        wrong.extend(compare(&without, &theirs, question).await);
    }
    let before = questions.len();
    theirs.apply(&objects).await;
    root.apply(&objects).await;
    with.apply(&objects).await;
    hear(&theirs).await;
    let (mut allowed, mut requests) = (0, 0);
    for question in &questions {
        wrong.extend(compare(&root, &theirs, question).await);
        wrong.extend(compare(&with, &theirs, question).await);
        allowed += usize::from(root.ask(question).await["allowed"] == true);
        // What every workspace has is the same, but paths are not all served.
        if let (Some((method, path)), world::About::Resource { .. }) = (question.request(), &question.about) {
            requests += 1;
            let user = (question.user.as_str(), question.groups.as_slice());
            let own = root.attempt(method, &path, &Value::Null, user).await;
            let their = theirs.attempt(method, &path, &Value::Null, user).await;
            if own != their {
                wrong.push(format!("{method} {path} as {user:?}: {own} instead of {their}"));
            }
        }
    }
    let attempts = number("ATOLL_QUESTIONS").unwrap_or(500) / 2;
    let mut refused = 0;
    for number in 0..attempts {
        let (user, groups, path, object) = draw.attempt(number);
        let (user, path) = ((user.as_str(), groups.as_slice()), format!("{path}?dryRun=All"));
        let own = root.attempt("POST", &path, &object, user).await;
        let their = theirs.attempt("POST", &path, &object, user).await;
        refused += usize::from(own["code"] == 403);
        if own != their {
            wrong.push(format!("POST {path} as {user:?} {object}: {own} instead of {their}"));
        }
    }
    println!(
        "seed {seed}: {} answers of reviews ({allowed} of {before} allowed), {requests} requests, {attempts} grants \
         ({refused} refused); {} differ",
        3 * before,
        wrong.len()
    );
    assert!(allowed * 20 > before && allowed * 20 < before * 19, "{allowed} of {before} are allowed");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
