use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use atoll_authz::Step;
use http_body::Frame;
use http_body_util::Full;
use tokio::sync::mpsc;

use super::*;

const BODY_TIMEOUT: Duration = Duration::from_secs(10);

fn user(name: &str) -> User {
    User::authenticated(name.into(), String::new(), Vec::new())
}

fn request(verb: &'static str) -> RequestInfo {
    RequestInfo { verb, ..RequestInfo::default() }
}

fn within(path: &[&str]) -> Workspace {
    let parents = ["root"].iter().chain(path);
    let steps =
        parents.zip(path).map(|(parent, name)| Step { parent: (*parent).into(), name: (*name).into() });
    Workspace::One { id: path.last().unwrap_or(&"root").to_string(), deleting: false, steps: steps.collect() }
}

fn start<'a>(inflight: &'a InFlight, verb: &'static str, user: &User) -> Result<CountedRequest<'a>, Status> {
    inflight.start(&request(verb), Some(Sender::of(user, None)))
}

#[test]
fn requests_are_refused_while_all_permits_are_taken() {
    let inflight = InFlight::new(1, 1, 16, BODY_TIMEOUT);
    let (ann, bob) = (user("ann"), user("bob"));
    let acquire =
        |verb: &'static str, user: &User| start(&inflight, verb, user).and_then(CountedRequest::acquire);
    let permit = acquire("list", &ann).ok();
    for user in [&ann, &bob] {
        let refused = acquire("list", user).err().unwrap();
        assert_eq!((refused.code(), refused.retry_after()), (429, Some(1)));
    }
    assert!(acquire("create", &ann).is_ok(), "writes have permits of their own");
    assert!(acquire("watch", &ann).is_ok());
    assert!(inflight.start(&request("list"), None).and_then(CountedRequest::acquire).is_ok());
    let probe = RequestInfo { verb: "get", path: "/livez".into(), ..RequestInfo::default() };
    assert!(inflight.start(&probe, Some(Sender::of(&ann, None))).and_then(CountedRequest::acquire).is_ok());
    drop(permit);
    assert!(acquire("list", &ann).is_ok());
    assert!(inflight.senders.0.lock().unwrap().is_empty(), "senders without requests have no entry");
}

#[test]
fn watches_have_permits_of_their_own() {
    let inflight = InFlight::new(1, 1, 16, BODY_TIMEOUT);
    let watch = |name: &str| start(&inflight, "watch", &user(name)).map(|started| started.response_limits());
    let mut held: Vec<ResponseLimits> = std::iter::from_fn(|| watch("ann").ok()).collect();
    assert_eq!(held.len(), 4, "the permit is kept by the limits of the response");
    let refused = watch("ann").err().unwrap();
    assert_eq!((refused.code(), refused.retry_after()), (429, Some(1)));
    assert!(start(&inflight, "list", &user("ann")).is_ok());
    // A watch that has ended keeps its permit until all of its data was read.
    let buffer = held.pop().map(|limits| limits.watch_buffer());
    assert!(watch("ann").is_err());
    drop(buffer);
    held.push(watch("ann").unwrap());
    for name in ["bob", "cem", "dan"] {
        held.extend(std::iter::from_fn(|| watch(name).ok()));
    }
    assert_eq!(held.len(), 16);
    assert!(watch("eve").is_err(), "all permits are taken");
    let exempt = inflight.start(&request("watch"), None).map(|started| started.response_limits());
    assert!(exempt.is_ok_and(|limits| !limits.watch_buffer().is_counted()));
    drop(held);
    assert!(inflight.senders.0.lock().unwrap().is_empty());
}

#[test]
fn a_sender_cannot_exceed_its_share() {
    let inflight = InFlight::new(16, 16, 16, BODY_TIMEOUT);
    let (ann, bob) = (user("ann"), user("bob"));
    let held: Vec<_> = std::iter::from_fn(|| start(&inflight, "create", &ann).ok()).collect();
    assert_eq!(held.len(), 4);
    assert!(start(&inflight, "list", &ann).is_ok() && start(&inflight, "create", &bob).is_ok());
    // Users of a workspace share what their workspace has, and workspaces share what their parent has.
    let fill = |user: &User, workspace: &Workspace| -> Vec<CountedRequest<'_>> {
        let sender = || Some(Sender::of(user, Some(workspace)));
        std::iter::from_fn(|| inflight.start(&request("create"), sender()).ok()).collect()
    };
    let (org, team, other) = (within(&["o"]), within(&["o", "t"]), within(&["o", "u"]));
    let one = fill(&user("a").of_workspace("t"), &team);
    let two = fill(&user("b").of_workspace("t"), &team);
    assert_eq!((one.len(), two.len()), (1, 1), "the team has two, and a user one of them");
    assert!(fill(&user("c").of_workspace("t"), &team).is_empty());
    let three = fill(&user("a").of_workspace("u"), &other);
    assert_eq!(three.len(), 1);
    let four = fill(&user("a").of_workspace("o"), &org);
    assert_eq!(four.len(), 1, "the organization has four requests now");
    assert!(fill(&user("d").of_workspace("u"), &other).is_empty());
    let elsewhere = fill(&user("a").of_workspace("x"), &within(&["x"]));
    assert_eq!(elsewhere.len(), 2);
}

#[test]
fn accounts_of_a_namespace_share_but_agents_do_not() {
    let inflight = InFlight::new(16, 16, 16, BODY_TIMEOUT);
    let root = within(&[]);
    let fill = |namespace: &str, name: &str| -> Vec<CountedRequest<'_>> {
        let user = user(&format!("system:serviceaccount:{namespace}:{name}")).of_workspace(ROOT);
        let sender = || Some(Sender::of(&user, Some(&root)));
        std::iter::from_fn(|| inflight.start(&request("create"), sender()).ok()).collect()
    };
    let held = ["a", "b", "c"].map(|name| fill("n", name));
    assert_eq!(
        held.each_ref().map(Vec::len),
        [2, 2, 0],
        "a quarter for the namespace, half of it for an account"
    );
    let agents = ["a", "b"].map(|name| fill(SYSTEM_NAMESPACE, name));
    assert_eq!(agents.each_ref().map(Vec::len), [4, 4], "a quarter for each agent");
}

/// A body whose chunks are sent through a channel.
struct Chunks(mpsc::Receiver<Bytes>);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}

#[tokio::test(start_paused = true)]
async fn slow_bodies_time_out() {
    let inflight = InFlight::new(4, 4, 16, BODY_TIMEOUT);
    let ann = user("ann");
    let mut share = start(&inflight, "create", &ann).unwrap();
    assert_eq!(share.read(Full::new(Bytes::from("whole"))).await.unwrap(), "whole");
    // Sends `count` chunks of `size` bytes, one per second.
    let sent = |size: usize, count: usize| {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            let second = Duration::from_secs(1);
            let mut seconds = tokio::time::interval_at(tokio::time::Instant::now() + second, second);
            for _ in 0..count {
                seconds.tick().await;
                if sender.send(Bytes::from(vec![b'x'; size])).await.is_err() {
                    return;
                }
            }
        });
        Chunks(receiver)
    };
    assert_eq!(share.read(sent(1, 9)).await.unwrap().len(), 9, "any body may take some time");
    let fast = MIN_BODY_RATE as usize;
    assert_eq!(
        share.read(sent(fast, 60)).await.unwrap().len(),
        60 * fast,
        "a fast large body may take longer"
    );
    assert_eq!(share.read(sent(1, 60)).await.unwrap_err().code(), 504);
    assert_eq!(share.read(sent(fast / 2, 60)).await.unwrap_err().code(), 504);
    assert_eq!(share.read(sent(MAX_BODY, 2)).await.unwrap_err().code(), 413);
}

#[tokio::test]
async fn memory_for_bodies_is_limited() {
    let inflight = InFlight::new(4, 4, 16, BODY_TIMEOUT);
    let whole = || Full::new(Bytes::from(vec![b'x'; MAX_BODY]));
    let mut held = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let mut share = start(&inflight, "create", &user(name)).unwrap();
        share.read(whole()).await.unwrap();
        held.push(share);
    }
    let eve = user("eve");
    assert_eq!(start(&inflight, "create", &eve).unwrap().read(whole()).await.unwrap_err().code(), 429);
    held.pop();
    assert!(start(&inflight, "create", &eve).unwrap().read(whole()).await.is_ok());
}

#[tokio::test]
async fn bodies_of_one_sender_leave_memory_to_others() {
    // Sixteen bodies in total: four for a workspace, two for a user in it.
    let bodies = Memory::new(16 * MAX_BODY, MAX_BODY);
    let inflight = InFlight { bodies, ..InFlight::new(64, 64, 16, BODY_TIMEOUT) };
    let whole = || Full::new(Bytes::from(vec![b'x'; MAX_BODY]));
    let org = within(&["o"]);
    let (mut held, mut counts) = (Vec::new(), Vec::new());
    for name in ["a", "b", "c"] {
        let sender = Sender::of(&user(name).of_workspace("o"), Some(&org));
        let before = held.len();
        let refused = loop {
            let mut share = inflight.start(&request("create"), Some(sender.clone())).unwrap();
            match share.read(whole()).await {
                Ok(_) => held.push(share),
                Err(refused) => break refused,
            }
        };
        assert_eq!((refused.code(), refused.retry_after()), (429, Some(1)));
        counts.push(held.len() - before);
    }
    assert_eq!(counts, [2, 2, 0]);
    let mut other = start(&inflight, "create", &user("other")).unwrap();
    assert!(other.read(whole()).await.is_ok());
    drop((held, other));
    assert_eq!(inflight.bodies.reserved(), (0, 0));
}

#[tokio::test]
async fn bodies_of_reading_requests_are_ignored() {
    let inflight = InFlight::new(4, 4, 16, BODY_TIMEOUT);
    for verb in ["get", "list"] {
        let mut share = start(&inflight, verb, &user("ann")).unwrap();
        // This body never arrives.
        let (_sender, receiver) = mpsc::channel(1);
        assert!(share.read(Chunks(receiver)).await.unwrap().is_empty());
    }
}
