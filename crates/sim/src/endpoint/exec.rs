//! Commands in simulated containers: a few common ones, and a shell that supports them.

use std::time::Duration;

use atoll_streams::remote_command::{ExecStatus, Session};
use bytes::BytesMut;

use super::ContainerRequest;
use crate::program::milliseconds;

/// Maximum length of a line that the shell reads.
const LINE: usize = 4096;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Environment of a command.
struct ExecEnvironment {
    pod: String,
    node: String,
    variables: Vec<(String, String)>,
}

/// Output and exit code of a command.
#[derive(Debug, Default, PartialEq, Eq)]
struct CommandOutput {
    out: String,
    problem: String,
    code: i32,
    /// Duration in milliseconds.
    millis: u64,
    /// Whether the shell ends after this command.
    exits: bool,
}

pub async fn run(mut session: Session, request: ContainerRequest) {
    let words: Vec<&str> = request.query.values("command").collect();
    let environment = ExecEnvironment {
        pod: request.running.key.name.to_string(),
        node: request.running.node.clone(),
        variables: request.running.environment(&request.container),
    };
    let code = match words.as_slice() {
        [shell] | [shell, "-i" | "-l"] if is_shell(shell) => run_shell(&mut session, &environment).await,
        [shell, flag, script, ..] if is_shell(shell) && flag.starts_with('-') && flag.ends_with('c') => {
            let mut code = 0;
            for line in script.split([';', '\n']) {
                let output = command(&line.split_whitespace().collect::<Vec<_>>(), &environment);
                let exits = output.exits;
                code = show(&mut session, output).await;
                if exits {
                    break;
                }
            }
            code
        }
        ["cat"] => echo(&mut session).await,
        words => {
            let output = command(words, &environment);
            show(&mut session, output).await
        }
    };
    session.end(&ExecStatus::exit(code)).await;
}

/// Streams the container's log from now on, until the client disconnects or the container ends.
pub async fn attach(mut session: Session, request: ContainerRequest) {
    let mut next = request.running.pod().log(&request.container).map_or(0, |log| log.since(u64::MAX).1);
    let closed = session.closed();
    let mut closed = std::pin::pin!(closed);
    let mut interval = tokio::time::interval(POLL_INTERVAL);
    loop {
        tokio::select! {
            () = &mut closed => return,
            _ = interval.tick() => {}
        }
        let (text, is_over) = {
            let pod = request.running.pod();
            let Some(log) = pod.log(&request.container) else { break };
            let (lines, after) = log.since(next);
            next = after;
            (lines.map(|(_, line)| format!("{line}\n")).collect::<String>(), !pod.is_serving())
        };
        if let Some(stdout) = &mut session.stdout
            && !text.is_empty()
            && stdout.write(text).await.is_err()
        {
            return;
        }
        if is_over {
            break;
        }
    }
    session.end(&ExecStatus::Success).await;
}

fn is_shell(word: &str) -> bool {
    matches!(word.rsplit('/').next(), Some("sh" | "bash" | "ash"))
}

/// Copies stdin to stdout.
async fn echo(session: &mut Session) -> i32 {
    if let (Some(stdin), Some(stdout)) = (&mut session.stdin, &mut session.stdout) {
        while let Some(piece) = stdin.next().await {
            if stdout.write(piece).await.is_err() {
                return 1;
            }
        }
    }
    0
}

/// Runs a shell: one command per line, until the input ends or a command exits.
async fn run_shell(session: &mut Session, environment: &ExecEnvironment) -> i32 {
    let (mut pending, mut code) = (BytesMut::new(), 0);
    loop {
        while let Some(end) = pending.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let line = String::from_utf8_lossy(&pending.split_to(end + 1)).trim().to_string();
            if line.is_empty() {
                continue;
            }
            let output = command(&line.split_whitespace().collect::<Vec<_>>(), environment);
            let exits = output.exits;
            code = show(session, output).await;
            if exits {
                return code;
            }
        }
        let piece = match &mut session.stdin {
            Some(stdin) => stdin.next().await,
            None => None,
        };
        match piece {
            Some(piece) if pending.len() + piece.len() <= LINE => pending.extend_from_slice(&piece),
            Some(_) => pending.clear(),
            None if pending.is_empty() => return code,
            None => pending.extend_from_slice(b"\n"),
        }
    }
}

async fn show(session: &mut Session, output: CommandOutput) -> i32 {
    tokio::time::sleep(Duration::from_millis(output.millis)).await;
    // Errors are ignored, because the client may not read the output.
    if let Some(stdout) = session.stdout.as_mut().filter(|_| !output.out.is_empty()) {
        let _ = stdout.write(output.out).await;
    }
    // A terminal has only one output stream.
    let stderr = if session.stderr.is_some() { &mut session.stderr } else { &mut session.stdout };
    if let Some(stderr) = stderr.as_mut().filter(|_| !output.problem.is_empty()) {
        let _ = stderr.write(output.problem).await;
    }
    output.code
}

fn command(words: &[&str], environment: &ExecEnvironment) -> CommandOutput {
    let printed = |out: String| CommandOutput { out, ..CommandOutput::default() };
    let ended = |code: i32| CommandOutput { code, ..CommandOutput::default() };
    match words {
        [] | ["true" | ":" | "clear"] => ended(0),
        ["false"] => ended(1),
        ["exit"] => CommandOutput { exits: true, ..CommandOutput::default() },
        ["exit", code] => {
            CommandOutput { code: code.parse().unwrap_or(2), exits: true, ..CommandOutput::default() }
        }
        ["hostname"] => printed(format!("{}\n", environment.pod)),
        ["whoami"] => printed("root\n".into()),
        ["uname", ..] => printed(format!("Linux {}\n", environment.node)),
        ["echo", words @ ..] => {
            let words: Vec<&str> = words.iter().map(|word| word.trim_matches(['"', '\''])).collect();
            printed(format!("{}\n", words.join(" ")))
        }
        ["env" | "printenv"] => {
            printed(environment.variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect())
        }
        ["printenv", name] => match environment.variables.iter().find(|(known, _)| known == name) {
            Some((_, value)) => printed(format!("{value}\n")),
            None => ended(1),
        },
        ["sleep", time] => match milliseconds(time) {
            Some(millis) => CommandOutput { millis, ..CommandOutput::default() },
            None => CommandOutput { problem: format!("sleep: invalid time interval '{time}'\n"), ..ended(1) },
        },
        ["cat", file, ..] => {
            CommandOutput { problem: format!("cat: {file}: No such file or directory\n"), ..ended(1) }
        }
        [other, ..] => CommandOutput { problem: format!("sh: {other}: not found\n"), ..ended(127) },
    }
}

/// Whether a container supports a command.
pub(crate) fn is_known(words: &[&str]) -> bool {
    let environment = ExecEnvironment { pod: String::new(), node: String::new(), variables: Vec::new() };
    command(words, &environment).code != 127
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_commands_work() {
        let variables = vec![("COLOUR".to_string(), "blue".to_string())];
        let environment = ExecEnvironment { pod: "web-1".into(), node: "n".into(), variables };
        for (line, out, problem, code) in [
            ("hostname", "web-1\n", "", 0),
            ("echo \"hello\" there", "hello there\n", "", 0),
            ("printenv COLOUR", "blue\n", "", 0),
            ("env", "COLOUR=blue\n", "", 0),
            ("printenv SIZE", "", "", 1),
            ("false", "", "", 1),
            ("exit 3", "", "", 3),
            ("ls /", "", "sh: ls: not found\n", 127),
            ("cat /etc/passwd", "", "cat: /etc/passwd: No such file or directory\n", 1),
        ] {
            let output = command(&line.split_whitespace().collect::<Vec<_>>(), &environment);
            assert_eq!(
                (output.out.as_str(), output.problem.as_str(), output.code),
                (out, problem, code),
                "{line}"
            );
        }
        assert_eq!(command(&["sleep", "2"], &environment).millis, 2000);
    }
}
