use tokio::time::timeout;

use super::*;

const LIMIT: Duration = Duration::from_secs(90);

/// The use of a connection at the time of a test.
#[derive(Clone, Copy)]
enum Use {
    Idle,
    Authenticated,
    Request,
    AuthenticatedRequest,
}

use Use::{Authenticated, AuthenticatedRequest, Idle, Request};

struct Held {
    connection: Arc<OpenConnection>,
    _request: Option<RequestInProgress>,
}

fn open(connections: &Arc<Connections>, address: &str, usage: Use) -> Option<Held> {
    let connection = connections.admit(address.parse().unwrap())?;
    if matches!(usage, Authenticated | AuthenticatedRequest) {
        connection.state.authenticated();
    }
    let busy = matches!(usage, Request | AuthenticatedRequest);
    let _request = busy.then(|| connection.state.start_request());
    Some(Held { connection, _request })
}

async fn is_replaced(held: &Held) -> bool {
    timeout(Duration::ZERO, held.connection.state.replaced()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn connections_are_closed_in_order() {
    let (a, b, c) = ("10.0.0.1", "10.0.0.2", "10.0.0.3");
    let network = "2001:db8::1";
    // Open connections, the client of a new one, and the index of the closed one, if the new one is admitted.
    type Case<'a> = (&'a str, &'a [(&'a str, Use)], &'a str, Option<Option<usize>>);
    let cases: &[Case] = &[
        ("there is room", &[(a, Idle), (b, Idle)], a, Some(None)),
        ("an address has half", &[(a, Idle), (a, Idle), (a, Idle)], a, Some(Some(0))),
        ("others have the other half", &[(a, Idle), (a, Idle), (a, Idle)], b, Some(None)),
        (
            "an address with all in use takes no other's place",
            &[(a, AuthenticatedRequest), (a, AuthenticatedRequest), (a, AuthenticatedRequest), (b, Idle)],
            a,
            None,
        ),
        (
            "the address with the most connections gives way",
            &[(c, Idle), (b, Idle), (a, Idle), (b, Idle), (a, Idle), (a, Idle)],
            c,
            Some(Some(2)),
        ),
        (
            "idle connections without a user come first",
            &[(a, Authenticated), (a, Request), (a, Idle), (b, Request), (b, Idle), (b, Request)],
            c,
            Some(Some(2)),
        ),
        (
            "then idle ones, whatever address has more connections",
            &[(a, Request), (a, Request), (a, Request), (b, Request), (b, Authenticated), (c, Request)],
            "10.0.0.4",
            Some(Some(4)),
        ),
        (
            "then anonymous requests",
            &[
                (b, AuthenticatedRequest),
                (b, AuthenticatedRequest),
                (b, AuthenticatedRequest),
                (a, Request),
                (a, Request),
                (c, AuthenticatedRequest),
            ],
            c,
            Some(Some(3)),
        ),
        (
            "authenticated requests stay",
            &[
                (a, AuthenticatedRequest),
                (a, AuthenticatedRequest),
                (a, AuthenticatedRequest),
                (b, AuthenticatedRequest),
                (b, AuthenticatedRequest),
                (b, AuthenticatedRequest),
            ],
            c,
            None,
        ),
        (
            "a network of IPv6 counts as one address",
            &[(network, Idle), ("2001:db8::2", Idle), ("2001:db8:0:0:1::", Idle)],
            "2001:db8::3",
            Some(Some(0)),
        ),
        (
            "mapped addresses are the same",
            &[(a, Idle), ("::ffff:10.0.0.1", Idle), (a, Idle)],
            "::ffff:10.0.0.1",
            Some(Some(0)),
        ),
    ];
    for (name, opened, new, expected) in cases {
        let connections = Connections::new(6);
        let mut held = Vec::new();
        for (address, usage) in *opened {
            held.push(open(&connections, address, *usage).unwrap());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let admitted = open(&connections, new, Idle);
        assert_eq!(admitted.is_some(), expected.is_some(), "{name}");
        let mut replaced = Vec::new();
        for (index, each) in held.iter().enumerate() {
            if is_replaced(each).await {
                replaced.push(index);
            }
        }
        assert_eq!(replaced, Vec::from_iter(expected.flatten()), "{name}");
        let counts = connections.counts();
        assert_eq!(counts.refused, u64::from(expected.is_none()), "{name}");
        assert_eq!(counts.closed, replaced.len() as u64, "{name}");
        assert_eq!(counts.open, held.len() + usize::from(admitted.is_some()) - replaced.len(), "{name}");
        drop((held, admitted));
        assert_eq!(connections.counts().open, 0, "{name}");
        assert!(connections.table().clients.is_empty(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_connection_that_is_idle_longest_is_closed() {
    let connections = Connections::new(6);
    let mut held: Vec<_> = (0..3).map(|_| open(&connections, "::1", Authenticated).unwrap()).collect();
    for used in [1, 0] {
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(held[used].connection.state.start_request());
    }
    for oldest in [2, 1, 0] {
        held.push(open(&connections, "::1", Authenticated).unwrap());
        assert!(is_replaced(&held[oldest]).await, "{oldest}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_idle_without_requests() {
    let connections = Connections::new(6);
    let connection = connections.admit("::1".parse().unwrap()).unwrap();
    let state = &connection.state;
    let ends_within = async |time: Duration| timeout(time, state.idle_for(LIMIT)).await.is_ok();
    assert!(!ends_within(LIMIT / 2).await);
    let (first, second) = (state.start_request(), state.start_request());
    assert!(!ends_within(LIMIT * 10).await, "requests are under way");
    drop(first);
    assert!(!ends_within(LIMIT * 10).await, "a request is under way");
    drop(second);
    assert!(!ends_within(LIMIT - Duration::from_secs(1)).await);
    assert!(ends_within(Duration::from_secs(2)).await);
    state.start_request().upgraded();
    assert!(!ends_within(LIMIT * 10).await, "the connection was upgraded");
}
