//! One connection with faults: late or lost responses and events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use atoll_client::BoxFuture;
use atoll_server::Body;
use atoll_server::hidden_api::HiddenApi;
use atoll_server::listen::wrapper::ConnectionWrapper;
use bytes::Bytes;
use http::Response;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use super::faults::FaultInjector;

/// One connection with faults.
pub struct ConnectionFaults {
    pub fault_injector: FaultInjector,
    reset: AtomicBool,
    lost: Notify,
}

/// Maximum number of delayed events of a watch.
const MAX_DELAYED_EVENTS: usize = 256;

impl ConnectionFaults {
    pub fn new(fault_injector: FaultInjector) -> Arc<Self> {
        Arc::new(ConnectionFaults { fault_injector, reset: AtomicBool::new(false), lost: Notify::new() })
    }

    /// Whether the connection ends without a TLS close.
    pub fn is_reset(&self) -> bool {
        self.reset.load(Ordering::Acquire) || self.fault_injector.now().is_down
    }

    /// Ends the connection.
    fn reset(&self) {
        self.reset.store(true, Ordering::Release);
        self.lost.notify_one();
    }

    /// Resolves when the connection is lost.
    async fn lost(&self) {
        tokio::select! {
            () = self.lost.notified() => {}
            () = self.fault_injector.until(|faults| faults.is_down) => {}
        }
    }

    /// Delays or drops a response. The request has been carried out in either case, as with real networks.
    async fn delay_response(self: Arc<Self>, response: Response<Body>) -> Response<Body> {
        let delay = self.fault_injector.delay();
        if !delay.is_zero() {
            sleep(delay).await;
        }
        if self.fault_injector.should_drop() {
            self.reset();
            std::future::pending::<()>().await;
        }
        response.map(|body| match body {
            Body::Stream(events) => {
                let (sender, receiver) = mpsc::channel(1);
                tokio::spawn(self.delay_events(events, sender));
                Body::Stream(receiver)
            }
            whole => whole,
        })
    }

    /// Delays events, each by itself, in order.
    async fn delay_events(self: Arc<Self>, mut events: mpsc::Receiver<Bytes>, to: mpsc::Sender<Bytes>) {
        let mut queue: VecDeque<(Instant, Bytes)> = VecDeque::new();
        let mut is_open = true;
        while is_open || !queue.is_empty() {
            let due = queue.front().map_or_else(Instant::now, |(due, _)| *due);
            tokio::select! {
                event = events.recv(), if is_open && queue.len() < MAX_DELAYED_EVENTS => match event {
                    Some(event) => queue.push_back((Instant::now() + self.fault_injector.delay(), event)),
                    None => is_open = false,
                },
                () = sleep_until(due), if !queue.is_empty() => {
                    if self.fault_injector.should_drop() {
                        return self.reset();
                    }
                    let Some((_, event)) = queue.pop_front() else { continue };
                    if to.send(event).await.is_err() {
                        return;
                    }
                }
                () = to.closed() => return,
            }
        }
    }
}

impl ConnectionWrapper for ConnectionFaults {
    fn hidden_api(&self) -> Option<Arc<HiddenApi>> {
        Some(self.fault_injector.now().hidden_api.clone())
    }

    fn wrap_response(self: Arc<Self>, response: Response<Body>) -> BoxFuture<'static, Response<Body>> {
        Box::pin(self.delay_response(response))
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.lost())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::faults::NetworkFaults;
    use super::super::faults::tests::injector;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn events_are_delayed_individually_and_stay_in_order() {
        let latency = Duration::from_millis(200);
        let (sender, fault_injector) = injector(NetworkFaults { latency, ..NetworkFaults::default() });
        let (events, receiver) = mpsc::channel(8);
        let (to, mut delayed) = mpsc::channel(1);
        tokio::spawn(ConnectionFaults::new(fault_injector).delay_events(receiver, to));
        let began = Instant::now();
        for number in 0..5_u8 {
            events.send(Bytes::from(vec![number])).await.unwrap();
        }
        for number in 0..5_u8 {
            assert_eq!(delayed.recv().await.unwrap(), vec![number]);
        }
        assert_eq!(began.elapsed(), latency, "delays do not add up");
        sender.send_replace(Arc::new(NetworkFaults::default()));
        events.send(Bytes::from_static(b"x")).await.unwrap();
        delayed.recv().await.unwrap();
        assert_eq!(began.elapsed(), latency, "no delay without faults");
        drop(events);
        assert_eq!(delayed.recv().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_response_ends_its_connection() {
        let (_sender, fault_injector) = injector(NetworkFaults { loss: 1.0, ..NetworkFaults::default() });
        let connection = ConnectionFaults::new(fault_injector);
        let answer = connection.clone().delay_response(Response::new(Body::empty()));
        tokio::select! {
            _ = answer => panic!("it arrived"),
            () = connection.lost() => {}
        }
        assert!(connection.is_reset());
    }
}
