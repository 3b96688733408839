//! A closed-loop load: each connection sends its next request when the previous response is complete.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::connection::{Connection, Target};
use crate::error::{BenchError, BenchResult};
use crate::process;
use crate::samples::Samples;

/// End of a load.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    Count(u64),
    Elapsed(Duration),
}

/// A request template with placeholders for numbers of fixed width.
#[derive(Clone, Debug)]
pub struct Requests {
    template: Vec<u8>,
    /// Positions of `NUMBER`.
    slots: Vec<usize>,
    /// Positions of `COUNT`.
    counts: Vec<usize>,
    /// Numbers wrap around at this value; 0 disables wrapping.
    modulus: u64,
}

/// Digits of a number in a request.
const WIDTH: usize = 8;
/// Placeholder for the number in a template.
pub const NUMBER: &str = "########";
/// Placeholder for the count of requests, which never wraps around.
pub const COUNT: &str = "@@@@@@@@";

#[derive(Clone)]
pub struct Load {
    pub target: Target,
    pub connections: usize,
    pub requests: Requests,
    pub until: Until,
    pub status: u16,
    /// Expected size of the response body.
    pub length: RangeInclusive<usize>,
}

#[derive(Debug, Default)]
pub struct Measurement {
    pub requests: u64,
    pub bytes: u64,
    pub took: Duration,
    /// CPU time of the server during the load.
    pub busy: Duration,
    pub samples: Samples,
}

impl Requests {
    pub fn new(template: Vec<u8>, modulus: u64) -> Self {
        let find = |wanted: &str| {
            let windows = template.windows(WIDTH).enumerate();
            windows.filter(|(_, window)| *window == wanted.as_bytes()).map(|(position, _)| position).collect()
        };
        let (slots, counts) = (find(NUMBER), find(COUNT));
        Requests { template, slots, counts, modulus }
    }

    pub fn number(&mut self, count: u64) -> &[u8] {
        let number = if self.modulus == 0 { count } else { count % self.modulus };
        for (slots, number) in [(&self.slots, number), (&self.counts, count)] {
            let digits = digits(number);
            for slot in slots {
                self.template[*slot..*slot + WIDTH].copy_from_slice(&digits);
            }
        }
        &self.template
    }
}

fn digits(mut number: u64) -> [u8; WIDTH] {
    let mut digits = [b'0'; WIDTH];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    digits
}

impl Measurement {
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }

    pub fn bytes_rate(&self) -> f64 {
        self.bytes as f64 / self.took.as_secs_f64()
    }

    /// Returns the CPU time of the server per request, in seconds. It hardly depends on other load on the
    /// machine.
    pub fn cost(&self) -> f64 {
        self.busy.as_secs_f64() / self.requests.max(1) as f64
    }

    pub fn add(&mut self, other: Measurement) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.took += other.took;
        self.busy += other.busy;
        self.samples.add(other.samples);
    }
}

impl Load {
    /// Runs the load and measures the CPU time of `processes`, which includes accepting the connections.
    pub fn run_at(&self, processes: &[i32]) -> BenchResult<Measurement> {
        let before = process::busy(processes)?;
        let mut measured = self.run()?;
        measured.busy = process::busy(processes)?.saturating_sub(before);
        Ok(measured)
    }

    /// Opens the connections, then runs the load. Each thread drives its own connections, so that threads
    /// share almost no state.
    pub fn run(&self) -> BenchResult<Measurement> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(self.connections);
        let (next, barrier) = (Arc::new(AtomicU64::new(0)), Arc::new(Barrier::new(threads)));
        let drivers: Vec<_> = (0..threads)
            .map(|thread| {
                let share = (self.connections + thread) / threads;
                let (load, next, barrier) = (self.clone(), next.clone(), barrier.clone());
                std::thread::spawn(move || load.drive(share, &next, &barrier))
            })
            .collect();
        let mut all = Measurement::default();
        let mut ended: Option<(Instant, Instant)> = None;
        for driver in drivers {
            let gone = |_| BenchError::Machine("a thread of the load generator panicked".into());
            let (measured, began, end) = driver.join().map_err(gone)??;
            all.add(measured);
            ended = Some(ended.map_or((began, end), |(first, last)| (first.min(began), last.max(end))));
        }
        all.took = ended.map(|(began, end)| end - began).unwrap_or_default();
        Ok(all)
    }

    fn drive(
        self,
        share: usize,
        next: &Arc<AtomicU64>,
        barrier: &Barrier,
    ) -> BenchResult<(Measurement, Instant, Instant)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| BenchError::Machine(error.to_string()))?;
        runtime.block_on(async {
            let connections = connect(&self.target, share).await;
            // Wait even after an error, because the other threads would block at the barrier forever.
            barrier.wait();
            let began = Instant::now();
            let tasks: Vec<_> = connections?
                .into_iter()
                .map(|connection| tokio::spawn(self.clone().repeat(connection, next.clone(), began)))
                .collect();
            let mut all = Measurement::default();
            for task in tasks {
                all.add(task.await.map_err(|error| BenchError::Machine(error.to_string()))??);
            }
            Ok((all, began, Instant::now()))
        })
    }

    async fn repeat(
        mut self,
        mut connection: Connection,
        next: Arc<AtomicU64>,
        began: Instant,
    ) -> BenchResult<Measurement> {
        let mut measured = Measurement::default();
        let mut sent = Instant::now();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            match self.until {
                Until::Count(count) if number >= count => break,
                Until::Elapsed(limit) if sent - began >= limit => break,
                _ => {}
            }
            let request = self.requests.number(number);
            let answer = connection.exchange(request).await?;
            if answer.status != self.status || !self.length.contains(&answer.length) {
                let head = String::from_utf8_lossy(request);
                let line = head.lines().next().unwrap_or_default();
                let (status, length, lengths) = (self.status, answer.length, &self.length);
                return Err(BenchError::Response(format!(
                    "{line:?} returned {} with {length} bytes instead of {status} with {lengths:?}",
                    answer.status
                )));
            }
            let answered = Instant::now();
            measured.samples.push(answered - sent);
            measured.requests += 1;
            measured.bytes += answer.length as u64;
            sent = answered;
        }
        Ok(measured)
    }
}

async fn connect(target: &Target, count: usize) -> BenchResult<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        connections.push(target.connect().await?);
    }
    Ok(connections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_replace_every_placeholder() {
        let mut requests = Requests::new(format!("GET /x/c-{NUMBER}/{NUMBER} ").into_bytes(), 100);
        assert_eq!(requests.number(7), b"GET /x/c-00000007/00000007 ");
        assert_eq!(requests.number(142), b"GET /x/c-00000042/00000042 ");
        let mut requests = Requests::new(NUMBER.into(), 0);
        assert_eq!(requests.number(12_345_678), b"12345678");
    }
}
