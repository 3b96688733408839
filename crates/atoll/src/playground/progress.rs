//! Progress of a starting playground: a line for each server that is ready, and on a terminal a spinner.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::CONTROL_PLANE;
use crate::plane::ControlPlane;

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const FRAME_INTERVAL: Duration = Duration::from_millis(80);
/// Escape sequence that clears the current line.
const CLEAR: &str = "\r\x1b[K";

pub struct Progress {
    spinner: Option<JoinHandle<()>>,
}

impl Progress {
    pub fn start(is_new: bool, clusters: usize) -> Self {
        let verb = if is_new { "Starting" } else { "Resuming" };
        let clusters = match clusters {
            1 => "1 simulated cluster".to_string(),
            count => format!("{count} simulated clusters"),
        };
        println!("{verb} the control plane and {clusters}.");
        let spinner = std::io::stderr().is_terminal().then(|| tokio::spawn(spin()));
        Progress { spinner }
    }

    pub fn ready(&self, plane: &ControlPlane) {
        if self.spinner.is_some() {
            eprint!("{CLEAR}");
        }
        let what = if plane.name == CONTROL_PLANE { "control plane" } else { "cluster" };
        println!("  {what} {} is ready at https://{}", plane.name, plane.advertised);
    }

    pub fn finish(self) {
        if let Some(spinner) = self.spinner {
            spinner.abort();
            eprint!("{CLEAR}");
        }
    }
}

async fn spin() {
    for frame in FRAMES.iter().cycle() {
        eprint!("\r{frame} starting");
        // A failed flush does not matter.
        let _ = std::io::stderr().flush();
        tokio::time::sleep(FRAME_INTERVAL).await;
    }
}
