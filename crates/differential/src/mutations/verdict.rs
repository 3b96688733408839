//! The verdict of a server on a write.

use std::collections::BTreeSet;
use std::fmt;

use atoll_testkit::{ApiResponse, ClientError};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteVerdict {
    Accepted,
    Refused {
        status: u16,
        reason: String,
        /// Pairs of field and cause.
        causes: BTreeSet<(String, String)>,
        /// The message, for people who investigate a disagreement.
        message: String,
    },
    /// The stored object does not have the location of the change.
    Inapplicable,
    /// The server closed the connection, as kube-apiserver does when a handler panics.
    ConnectionClosed,
}

impl WriteVerdict {
    pub fn of(answer: Result<ApiResponse, ClientError>) -> Result<WriteVerdict, String> {
        match answer {
            Ok(answer) => Ok(WriteVerdict::read(&answer)),
            Err(ClientError::Interrupted(_)) => Ok(WriteVerdict::ConnectionClosed),
            Err(error) => Err(error.to_string()),
        }
    }

    fn read(answer: &ApiResponse) -> WriteVerdict {
        if answer.status < 300 {
            return WriteVerdict::Accepted;
        }
        let body = answer.json_or_null();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let causes = body["details"]["causes"].as_array().into_iter().flatten();
        let causes = causes.map(|cause| (text(&cause["field"]), text(&cause["reason"]))).collect();
        let message = if body.is_null() { answer.text() } else { text(&body["message"]) };
        WriteVerdict::Refused { status: answer.status, reason: text(&body["reason"]), causes, message }
    }

    /// Whether both verdicts have the same decision, reason and causes. Messages are ignored.
    pub fn agrees(&self, other: &WriteVerdict) -> bool {
        match (self, other) {
            (
                WriteVerdict::Refused { reason, causes, .. },
                WriteVerdict::Refused { reason: other_reason, causes: other_causes, .. },
            ) => reason == other_reason && causes == other_causes,
            _ => self == other,
        }
    }

    /// Whether the object was changed by another writer.
    pub fn is_conflict(&self) -> bool {
        matches!(self, WriteVerdict::Refused { reason, .. } if reason == "Conflict")
    }
}

impl fmt::Display for WriteVerdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteVerdict::Accepted => out.write_str("accepted"),
            WriteVerdict::Inapplicable => out.write_str("location does not exist"),
            WriteVerdict::ConnectionClosed => out.write_str("connection closed"),
            WriteVerdict::Refused { status, reason, causes, message } => {
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
