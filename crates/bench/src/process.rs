//! Reads memory and CPU usage of processes from `/proc`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{BenchError, BenchResult};

/// Resident memory of processes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub now: u64,
    pub peak: u64,
}

/// Returns the memory of several processes in total.
pub fn memory(processes: &[i32]) -> BenchResult<Memory> {
    let mut sum = Memory::default();
    for process in processes {
        let status = read(*process, "status")?;
        sum.now += kilobytes(&status, "VmRSS:")? << 10;
        sum.peak += kilobytes(&status, "VmHWM:")? << 10;
    }
    Ok(sum)
}

/// Returns the CPU time of several processes in total.
pub fn busy(processes: &[i32]) -> BenchResult<Duration> {
    let mut sum = Duration::ZERO;
    for process in processes {
        // utime and stime, fields 14 and 15 of /proc/PID/stat.
        sum += ticks(field(*process, 14)? + field(*process, 15)?);
    }
    Ok(sum)
}

/// Returns the time between the boot of the machine and the start of a process.
pub fn started(process: i32) -> BenchResult<Duration> {
    field(process, 22).map(ticks)
}

/// Returns the time since the machine was booted.
pub fn uptime() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Returns the CPU time of all cores since the machine was booted.
pub fn machine_busy() -> BenchResult<Duration> {
    let path = PathBuf::from("/proc/stat");
    let text = fs::read_to_string(&path).map_err(|error| BenchError::file(&path, &error))?;
    let line = text.lines().next().unwrap_or_default();
    // user nice system idle iowait irq softirq steal
    let numbers: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let idle = numbers.iter().skip(3).take(2).sum::<u64>();
    Ok(ticks(numbers.iter().take(8).sum::<u64>() - idle))
}

fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn field(process: i32, position: usize) -> BenchResult<u64> {
    let text = read(process, "stat")?;
    // The second field, the program's name in parentheses, may contain spaces and parentheses.
    let behind = text.rsplit_once(") ").map_or("", |(_, behind)| behind);
    let value = behind.split_whitespace().nth(position - 3).and_then(|word| word.parse().ok());
    value.ok_or_else(|| BenchError::Machine(format!("cannot parse /proc/{process}/stat")))
}

fn kilobytes(status: &str, name: &str) -> BenchResult<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let value =
        line.and_then(|rest| rest.trim().strip_suffix("kB")).and_then(|text| text.trim().parse().ok());
    value.ok_or_else(|| BenchError::Machine(format!("/proc/PID/status has no {name}")))
}

fn read(process: i32, file: &str) -> BenchResult<String> {
    let path = PathBuf::from(format!("/proc/{process}/{file}"));
    fs::read_to_string(&path).map_err(|error| BenchError::file(&path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_measured() {
        let own = [i32::try_from(std::process::id()).unwrap()];
        let memory = memory(&own).unwrap();
        assert!(memory.now > 100 << 10 && memory.peak >= memory.now, "{memory:?}");
        assert!(started(own[0]).unwrap() <= uptime());
        let before = busy(&own).unwrap();
        while busy(&own).unwrap() == before {}
        assert!(machine_busy().unwrap() >= busy(&own).unwrap());
    }
}
