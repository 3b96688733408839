use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
use atoll_meta::time::Timestamp;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};

use super::*;

const DAY: i64 = 86_400;
const NOW: i64 = 1_700_000_000;

fn token(issued: i64, expires: i64) -> String {
    let claims =
        json!({ "sub": "system:serviceaccount:atoll-system:atoll-syncer", "iat": issued, "exp": expires });
    format!("e30.{}.signature", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

/// Clock that follows the paused time, with an offset that the test sets.
#[derive(Clone)]
struct JumpingClock {
    began: Instant,
    set: Arc<AtomicI64>,
}

impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        let passed = self.began.elapsed().as_secs().cast_signed();
        Timestamp::new(NOW + passed + self.set.load(Ordering::Relaxed), 0)
    }
}

/// Fake API server that issues tokens by a correct clock.
struct TokenServer {
    began: Instant,
    given: Mutex<Vec<i64>>,
}

impl Transport for TokenServer {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        assert_eq!(request.uri(), "/api/v1/namespaces/atoll-system/serviceaccounts/atoll-syncer/token");
        let asked: Value = serde_json::from_slice(request.body()).expect("JSON");
        let now = self.began.elapsed().as_secs().cast_signed();
        self.given.lock().expect("not poisoned").push(now);
        let life = asked["spec"]["expirationSeconds"].as_i64().expect("a life");
        let answer = json!({ "status": { "token": token(NOW + now, NOW + now + life) } }).to_string();
        let body = Full::new(Bytes::from(answer)).map_err(|never| match never {}).boxed_unsync();
        Box::pin(async move { Ok(Response::new(body)) })
    }
}

/// Token storage, and whether writes to it fail.
struct StoredToken(Mutex<String>, AtomicBool);

impl TokenStore for StoredToken {
    fn current(&self) -> Result<Token, String> {
        Token::read(&self.0.lock().expect("not poisoned")).ok_or_else(|| "no token".into())
    }

    fn replace(&self, old: &Token, new: &Token) -> Result<(), String> {
        let mut kept = self.0.lock().expect("not poisoned");
        assert_eq!(*kept, old.text);
        if self.1.load(Ordering::Relaxed) {
            return Err("the disk is full".into());
        }
        *kept = new.text.clone();
        Ok(())
    }
}

/// Advances time in steps shorter than any sleep.
async fn pass(time: Duration) {
    const STEP: Duration = Duration::from_secs(10);
    for _ in 0..time.as_secs() / STEP.as_secs() {
        tokio::time::advance(STEP).await;
        tokio::task::yield_now().await;
    }
}

#[test]
fn tokens_are_parsed() {
    let found = Token::read(&token(NOW, NOW + DAY)).expect("a token");
    assert_eq!((found.issued, found.expires), (NOW, NOW + DAY));
    assert_eq!(
        format!("{found:?}"),
        format!("Token({}, {NOW}..{})", found.path, NOW + DAY),
        "the token is not shown"
    );
    let sooner = found.clone().until(Some("2000-01-01T00:00:00Z"));
    assert!(sooner.expires < NOW && sooner.issued <= sooner.expires);
    assert_eq!(found.clone().until(Some("2999-01-01T00:00:00Z")), found);
    let claims = |claims: Value| format!("e30.{}.s", URL_SAFE_NO_PAD.encode(claims.to_string()));
    for text in [
        "static".to_string(),
        "a.b.c".into(),
        claims(json!({ "sub": "ann", "exp": NOW })),
        claims(json!({ "sub": "system:serviceaccount:a:b" })),
    ] {
        assert_eq!(Token::read(&text), None, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn renewal_is_due_after_four_fifths_of_the_lifetime() {
    let read = Token::read(&token(NOW, NOW + 10 * DAY)).expect("a token");
    let days = |count: f64| Duration::from_secs_f64(count * DAY as f64);
    for (random, age) in [(0u64, 8.0), (500, 7.5), (999, 7.001)] {
        let due = RenewalTime::of(&read, NOW, &(Arc::new(move || random) as Random));
        assert!(due.left(NOW).abs_diff(days(age)) < Duration::from_secs(2), "{random}");
        // If the clock jumps forward, renewal is due at once. If it jumps back, the elapsed time counts.
        assert!(due.left(NOW + 30 * DAY).is_zero());
        assert_eq!(due.left(NOW - 30 * DAY), due.left(NOW));
    }
    // The clock was behind when the token was read.
    let due = RenewalTime::of(&read, NOW - 30 * DAY, &(Arc::new(|| 0u64) as Random));
    assert_eq!(due.left(NOW - 30 * DAY).as_secs(), days(8.0).as_secs());
}

/// Four days with tokens that are valid for two hours, while the clock jumps by days.
#[tokio::test(start_paused = true)]
async fn token_never_expires_when_the_clock_jumps() {
    const HOUR: i64 = 3600;
    for jumps in [&[][..], &[40 * DAY, -40 * DAY, 3 * DAY, -3 * DAY, 0]] {
        let began = Instant::now();
        let clock = JumpingClock { began, set: Arc::default() };
        let server = Arc::new(TokenServer { began, given: Mutex::default() });
        let kept = Arc::new(StoredToken(Mutex::new(token(NOW, NOW + 2 * HOUR)), false.into()));
        let adopted = Arc::new(Mutex::new(0));
        let (counting, keeping) = (adopted.clone(), kept.clone());
        let store = tokio::spawn(keep_renewed(
            Client::new(server.clone()),
            keeping,
            Arc::new(clock.clone()),
            Arc::new(|| 0),
            move |_| *counting.lock().expect("not poisoned") += 1,
        ));
        for hour in 0..96 {
            pass(Duration::from_secs(HOUR.unsigned_abs())).await;
            if !jumps.is_empty() && hour % 3 == 0 {
                clock.set.store(jumps[hour / 3 % jumps.len()], Ordering::Relaxed);
            }
            let current = kept.current().expect("a token");
            let right = NOW + began.elapsed().as_secs().cast_signed();
            assert!(current.expires > right, "hour {hour}: expired {} seconds ago", right - current.expires);
        }
        store.abort();
        let given = server.given.lock().expect("not poisoned").len();
        assert_eq!(given + 1, *adopted.lock().expect("not poisoned"), "including the first token");
        // After four fifths of two hours each, and at most once more for each jump.
        assert!((59..=59 + 33).contains(&given), "{given} in four days");
    }
}

#[tokio::test(start_paused = true)]
async fn token_stored_by_another_process_is_used() {
    let began = Instant::now();
    let server = Arc::new(TokenServer { began, given: Mutex::default() });
    let kept = Arc::new(StoredToken(Mutex::new(token(NOW, NOW + 10 * DAY)), false.into()));
    let adopted = Arc::new(Mutex::new(Vec::new()));
    let taking = adopted.clone();
    let store = tokio::spawn(keep_renewed(
        Client::new(server.clone()),
        kept.clone(),
        Arc::new(JumpingClock { began, set: Arc::default() }),
        Arc::new(|| 0),
        move |token| taking.lock().expect("not poisoned").push(token.expires),
    ));
    let given = NOW + 99 * DAY;
    tokio::task::yield_now().await;
    *kept.0.lock().expect("not poisoned") = token(NOW, given);
    pass(CHECK_INTERVAL * 2).await;
    assert_eq!(*adopted.lock().expect("not poisoned"), [NOW + 10 * DAY, given]);
    assert!(server.given.lock().expect("not poisoned").is_empty());
    store.abort();
}

#[tokio::test(start_paused = true)]
async fn storing_a_token_is_retried() {
    let began = Instant::now();
    let server = Arc::new(TokenServer { began, given: Mutex::default() });
    let kept = Arc::new(StoredToken(Mutex::new(token(NOW, NOW + DAY)), true.into()));
    let store = tokio::spawn(keep_renewed(
        Client::new(server.clone()),
        kept.clone(),
        Arc::new(JumpingClock { began, set: Arc::default() }),
        Arc::new(|| 0),
        |_| (),
    ));
    let held = || kept.0.lock().expect("not poisoned").clone();
    let first = held();
    pass(Duration::from_secs(DAY.unsigned_abs())).await;
    assert!(!server.given.lock().expect("not poisoned").is_empty(), "the token was renewed");
    assert_eq!(held(), first);
    kept.1.store(false, Ordering::Relaxed);
    pass(CHECK_INTERVAL * 3).await;
    assert_ne!(held(), first, "stored long before the next renewal");
    store.abort();
}
