//! What a server says to an object.

use std::collections::BTreeSet;
use std::fmt;

use atoll_testkit::{Answer, Error};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Refused {
        status: u16,
        reason: String,
        /// Field and cause.
        causes: BTreeSet<(String, String)>,
        /// The words, for people who look into a disagreement.
        message: String,
    },
    /// The stored object has nothing where the change should be made.
    Inapplicable,
    /// The connection ended instead, as it does when a handler of kube-apiserver panics.
    Silent,
}

impl Verdict {
    pub fn of(answer: Result<Answer, Error>) -> Result<Verdict, String> {
        match answer {
            Ok(answer) => Ok(Verdict::read(&answer)),
            Err(Error::Interrupted(_)) => Ok(Verdict::Silent),
            Err(error) => Err(error.to_string()),
        }
    }

    fn read(answer: &Answer) -> Verdict {
        if answer.status < 300 {
            return Verdict::Accepted;
        }
        let body = answer.json();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let causes = body["details"]["causes"].as_array().into_iter().flatten();
        let causes = causes.map(|cause| (text(&cause["field"]), text(&cause["reason"]))).collect();
        let message = if body.is_null() { answer.text() } else { text(&body["message"]) };
        Verdict::Refused { status: answer.status, reason: text(&body["reason"]), causes, message }
    }

    /// The same decision for the same fields, whatever the words.
    pub fn agrees(&self, other: &Verdict) -> bool {
        match (self, other) {
            (
                Verdict::Refused { reason, causes, .. },
                Verdict::Refused { reason: other_reason, causes: other_causes, .. },
            ) => reason == other_reason && causes == other_causes,
            _ => self == other,
        }
    }

    /// Whether somebody else has changed the object in the meantime.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Verdict::Refused { reason, .. } if reason == "Conflict")
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Accepted => out.write_str("accepted"),
            Verdict::Inapplicable => out.write_str("has nothing there"),
            Verdict::Silent => out.write_str("ends the connection"),
            Verdict::Refused { status, reason, causes, message } => {
                write!(out, "{status} {reason}")?;
                for (field, cause) in causes {
                    write!(out, " [{field}: {cause}]")?;
                }
                let message = message.replace('\n', " ");
                match message.char_indices().nth(400) {
                    Some((cut, _)) => write!(out, " {}…", &message[..cut]),
                    None => write!(out, " {message}"),
                }
            }
        }
    }
}
