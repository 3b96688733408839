//! A load: so many connections, each sending its next request as soon as the last one was answered.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::connection::{Connection, Target};
use crate::error::{BenchError, Outcome};
use crate::process;
use crate::samples::Samples;

/// When a load ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    Count(u64),
    Elapsed(Duration),
}

/// A request whose only variable parts are numbers of fixed width.
#[derive(Clone, Debug)]
pub struct Requests {
    template: Vec<u8>,
    /// Where the number stands.
    slots: Vec<usize>,
    /// Where the count of requests stands.
    counts: Vec<usize>,
    /// Numbers come round after so many; 0 if never.
    modulus: u64,
}

/// Digits of a number in a request.
const WIDTH: usize = 8;
/// What stands for the number in a template.
pub const NUMBER: &str = "########";
/// What stands for the count of requests, which never comes round.
pub const COUNT: &str = "@@@@@@@@";

#[derive(Clone)]
pub struct Load {
    pub target: Target,
    pub connections: usize,
    pub requests: Requests,
    pub until: Until,
    pub status: u16,
    /// How long a right answer is.
    pub length: RangeInclusive<usize>,
}

#[derive(Debug, Default)]
pub struct Measured {
    pub requests: u64,
    pub bytes: u64,
    pub took: Duration,
    /// Time that the server kept cores busy meanwhile.
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

impl Measured {
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }

    pub fn bytes_rate(&self) -> f64 {
        self.bytes as f64 / self.took.as_secs_f64()
    }

    /// What each request cost the server, in seconds of one core. It hardly depends on what else the machine does.
    pub fn cost(&self) -> f64 {
        self.busy.as_secs_f64() / self.requests.max(1) as f64
    }

    pub fn add(&mut self, other: Measured) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.took += other.took;
        self.busy += other.busy;
        self.samples.add(other.samples);
    }
}

impl Load {
    /// Runs, and measures how busy `processes` are with it. Their share of opening the connections is in it.
    pub fn run_at(&self, processes: &[i32]) -> Outcome<Measured> {
        let before = process::busy(processes)?;
        let mut measured = self.run()?;
        measured.busy = process::busy(processes)?.saturating_sub(before);
        Ok(measured)
    }

    /// Opens the connections, then measures. Each of a few threads drives its share of the connections alone, so
    /// that nothing is passed between them.
    pub fn run(&self) -> Outcome<Measured> {
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
        let mut all = Measured::default();
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
    ) -> Outcome<(Measured, Instant, Instant)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| BenchError::Machine(error.to_string()))?;
        runtime.block_on(async {
            let connections = connect(&self.target, share).await;
            // Everyone arrives here, or those that did would wait for ever.
            barrier.wait();
            let began = Instant::now();
            let tasks: Vec<_> = connections?
                .into_iter()
                .map(|connection| tokio::spawn(self.clone().repeat(connection, next.clone(), began)))
                .collect();
            let mut all = Measured::default();
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
    ) -> Outcome<Measured> {
        let mut measured = Measured::default();
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
                return Err(BenchError::Answer(format!(
                    "{line:?} was answered {} with {length} bytes, not {status} with {lengths:?}",
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

async fn connect(target: &Target, count: usize) -> Outcome<Vec<Connection>> {
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
    fn numbers_are_written_into_every_place() {
        let mut requests = Requests::new(format!("GET /x/c-{NUMBER}/{NUMBER} ").into_bytes(), 100);
        assert_eq!(requests.number(7), b"GET /x/c-00000007/00000007 ");
        assert_eq!(requests.number(142), b"GET /x/c-00000042/00000042 ");
        let mut requests = Requests::new(NUMBER.into(), 0);
        assert_eq!(requests.number(12_345_678), b"12345678");
    }
}
