//! Commands in simulated containers: a few common ones, and a shell that supports them.

use std::time::Duration;

use atoll_streams::remote_command::{Outcome, Session};
use bytes::BytesMut;

use super::Asked;
use crate::program::milliseconds;

/// Maximum length of a line that the shell reads.
const LINE: usize = 4096;
const LOOK: Duration = Duration::from_millis(100);

/// Environment of a command.
struct Place {
    pod: String,
    node: String,
    environment: Vec<(String, String)>,
}

/// Output and exit code of a command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reply {
    out: String,
    problem: String,
    code: i32,
    /// Duration in milliseconds.
    takes: u64,
    /// Whether the shell ends after this command.
    leaves: bool,
}

pub async fn run(mut session: Session, asked: Asked) {
    let words: Vec<&str> = asked.query.values("command").collect();
    let place = Place {
        pod: asked.running.key.name.to_string(),
        node: asked.running.node.clone(),
        environment: asked.running.environment(&asked.container),
    };
    let code = match words.as_slice() {
        [shell] | [shell, "-i" | "-l"] if is_shell(shell) => talk(&mut session, &place).await,
        [shell, flag, script, ..] if is_shell(shell) && flag.starts_with('-') && flag.ends_with('c') => {
            let mut code = 0;
            for line in script.split([';', '\n']) {
                let reply = command(&line.split_whitespace().collect::<Vec<_>>(), &place);
                let leaves = reply.leaves;
                code = show(&mut session, reply).await;
                if leaves {
                    break;
                }
            }
            code
        }
        ["cat"] => echo(&mut session).await,
        words => {
            let reply = command(words, &place);
            show(&mut session, reply).await
        }
    };
    session.end(&Outcome::exit(code)).await;
}

/// Streams the container's log from now on, until the client disconnects or the container ends.
pub async fn attach(mut session: Session, asked: Asked) {
    let mut next = asked.running.pod().log(&asked.container).map_or(0, |log| log.since(u64::MAX).1);
    let closed = session.closed();
    let mut closed = std::pin::pin!(closed);
    let mut interval = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            () = &mut closed => return,
            _ = interval.tick() => {}
        }
        let (text, is_over) = {
            let pod = asked.running.pod();
            let Some(log) = pod.log(&asked.container) else { break };
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
    session.end(&Outcome::Success).await;
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
async fn talk(session: &mut Session, place: &Place) -> i32 {
    let (mut pending, mut code) = (BytesMut::new(), 0);
    loop {
        while let Some(end) = pending.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let line = String::from_utf8_lossy(&pending.split_to(end + 1)).trim().to_string();
            if line.is_empty() {
                continue;
            }
            let reply = command(&line.split_whitespace().collect::<Vec<_>>(), place);
            let leaves = reply.leaves;
            code = show(session, reply).await;
            if leaves {
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

async fn show(session: &mut Session, reply: Reply) -> i32 {
    tokio::time::sleep(Duration::from_millis(reply.takes)).await;
    // Errors are ignored, because the client may not read the output.
    if let Some(stdout) = session.stdout.as_mut().filter(|_| !reply.out.is_empty()) {
        let _ = stdout.write(reply.out).await;
    }
    // A terminal has only one output stream.
    let stderr = if session.stderr.is_some() { &mut session.stderr } else { &mut session.stdout };
    if let Some(stderr) = stderr.as_mut().filter(|_| !reply.problem.is_empty()) {
        let _ = stderr.write(reply.problem).await;
    }
    reply.code
}

fn command(words: &[&str], place: &Place) -> Reply {
    let said = |out: String| Reply { out, ..Reply::default() };
    let ended = |code: i32| Reply { code, ..Reply::default() };
    match words {
        [] | ["true" | ":" | "clear"] => ended(0),
        ["false"] => ended(1),
        ["exit"] => Reply { leaves: true, ..Reply::default() },
        ["exit", code] => Reply { code: code.parse().unwrap_or(2), leaves: true, ..Reply::default() },
        ["hostname"] => said(format!("{}\n", place.pod)),
        ["whoami"] => said("root\n".into()),
        ["uname", ..] => said(format!("Linux {}\n", place.node)),
        ["echo", words @ ..] => {
            let words: Vec<&str> = words.iter().map(|word| word.trim_matches(['"', '\''])).collect();
            said(format!("{}\n", words.join(" ")))
        }
        ["env" | "printenv"] => {
            said(place.environment.iter().map(|(name, value)| format!("{name}={value}\n")).collect())
        }
        ["printenv", name] => match place.environment.iter().find(|(known, _)| known == name) {
            Some((_, value)) => said(format!("{value}\n")),
            None => ended(1),
        },
        ["sleep", time] => match milliseconds(time) {
            Some(takes) => Reply { takes, ..Reply::default() },
            None => Reply { problem: format!("sleep: invalid time interval '{time}'\n"), ..ended(1) },
        },
        ["cat", file, ..] => {
            Reply { problem: format!("cat: {file}: No such file or directory\n"), ..ended(1) }
        }
        [other, ..] => Reply { problem: format!("sh: {other}: not found\n"), ..ended(127) },
    }
}

/// Whether a container supports a command.
pub(crate) fn is_known(words: &[&str]) -> bool {
    let place = Place { pod: String::new(), node: String::new(), environment: Vec::new() };
    command(words, &place).code != 127
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_commands_work() {
        let environment = vec![("COLOUR".to_string(), "blue".to_string())];
        let place = Place { pod: "web-1".into(), node: "n".into(), environment };
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
            let reply = command(&line.split_whitespace().collect::<Vec<_>>(), &place);
            assert_eq!(
                (reply.out.as_str(), reply.problem.as_str(), reply.code),
                (out, problem, code),
                "{line}"
            );
        }
        assert_eq!(command(&["sleep", "2"], &place).takes, 2000);
    }
}
