//! Errors of connections to a server, with a cause for conditions and messages.

use std::fmt;

use atoll_meta::Status;

use crate::BoxError;

/// Cause of a failed connection or an unusable response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    NameNotResolved,
    ConnectionRefused,
    TimedOut,
    CertificateExpired,
    CertificateNotYetValid,
    CertificateUntrusted,
    CertificateForAnotherName,
    /// Tenants may not connect to this address.
    AddressRefused,
    /// A response exceeds the size limit.
    AnswerTooLarge,
    /// The server's responses exceed its memory budget.
    MemoryBudgetExceeded,
    /// Any other cause.
    Unreachable,
}

impl Cause {
    const ALL: [Cause; 11] = [
        Cause::NameNotResolved,
        Cause::ConnectionRefused,
        Cause::TimedOut,
        Cause::CertificateExpired,
        Cause::CertificateNotYetValid,
        Cause::CertificateUntrusted,
        Cause::CertificateForAnotherName,
        Cause::AddressRefused,
        Cause::AnswerTooLarge,
        Cause::MemoryBudgetExceeded,
        Cause::Unreachable,
    ];

    /// Returns the cause in a Status that stands for a missing response.
    pub fn of(status: &Status) -> Option<Cause> {
        Cause::ALL.into_iter().find(|cause| status.has_cause(cause.name()))
    }

    /// Returns the reason of the cause in a [`Status`].
    pub fn name(self) -> &'static str {
        match self {
            Cause::NameNotResolved => "NameNotResolved",
            Cause::ConnectionRefused => "ConnectionRefused",
            Cause::TimedOut => "TimedOut",
            Cause::CertificateExpired => "CertificateExpired",
            Cause::CertificateNotYetValid => "CertificateNotYetValid",
            Cause::CertificateUntrusted => "CertificateUntrusted",
            Cause::CertificateForAnotherName => "CertificateForAnotherName",
            Cause::AddressRefused => "AddressRefused",
            Cause::AnswerTooLarge => "AnswerTooLarge",
            Cause::MemoryBudgetExceeded => "MemoryBudgetExceeded",
            Cause::Unreachable => "Unreachable",
        }
    }
}

/// A failed connection.
#[derive(Debug)]
pub struct ConnectError {
    pub cause: Cause,
    /// Host and port.
    pub address: String,
    /// Message for users, without the address.
    pub what: String,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.address, self.what)
    }
}

impl std::error::Error for ConnectError {}

/// Converts an error to a Status.
pub fn to_status(error: &BoxError) -> Status {
    let cause = error.downcast_ref::<ConnectError>().map_or(Cause::Unreachable, |error| error.cause);
    unavailable(cause, &error.to_string())
}

/// Returns the Status for a missing response.
pub fn unavailable(cause: Cause, what: &str) -> Status {
    Status::service_unavailable(what).with_cause(cause.name(), "", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_round_trip_through_a_status() {
        let (address, what) = ("a:1".into(), "connection refused".into());
        let error = ConnectError { cause: Cause::ConnectionRefused, address, what };
        let found = to_status(&BoxError::from(error));
        assert_eq!((found.code(), found.message()), (503, "a:1: connection refused"));
        assert!(found.has_cause("ConnectionRefused"));
        assert!(to_status(&"it broke".into()).has_cause("Unreachable"));
        for cause in Cause::ALL {
            assert_eq!(Cause::of(&unavailable(cause, "")), Some(cause));
        }
        assert_eq!(Cause::of(&Status::service_unavailable("")), None);
    }
}
