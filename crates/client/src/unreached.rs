//! Why a server was not reached, so that people can be told what to do about it.

use std::fmt;

use atoll_meta::Status;

use crate::BoxError;

/// What stood in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    NameNotResolved,
    ConnectionRefused,
    TimedOut,
    CertificateExpired,
    CertificateNotYetValid,
    CertificateUntrusted,
    CertificateForAnotherName,
    /// Whoever named it may not have this address connected to.
    AddressRefused,
    /// Its answer is larger than any that is needed.
    AnswerTooLarge,
    /// What it sent would take more memory than a server may cost.
    MemoryBudgetExceeded,
    /// Anything else.
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

    /// Why there was no answer, if this is said in the place of one.
    pub fn of(status: &Status) -> Option<Cause> {
        Cause::ALL.into_iter().find(|cause| status.has_cause(cause.name()))
    }

    /// As a [`Status`] has it among its causes.
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

/// A server was not reached.
#[derive(Debug)]
pub struct Unreached {
    pub cause: Cause,
    /// For people.
    pub what: String,
}

impl fmt::Display for Unreached {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what)
    }
}

impl std::error::Error for Unreached {}

/// The same for those who know only answers.
pub fn status(error: &BoxError) -> Status {
    let cause = error.downcast_ref::<Unreached>().map_or(Cause::Unreachable, |unreached| unreached.cause);
    no_answer(cause, &error.to_string())
}

/// What is answered in the place of a server that does not.
pub fn no_answer(cause: Cause, what: &str) -> Status {
    Status::service_unavailable(what).with_cause(cause.name(), "", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_among_those_of_a_status() {
        let unreached = Unreached { cause: Cause::ConnectionRefused, what: "a:1: connection refused".into() };
        let found = status(&BoxError::from(unreached));
        assert_eq!((found.code(), found.message()), (503, "a:1: connection refused"));
        assert!(found.has_cause("ConnectionRefused"));
        assert!(status(&"it broke".into()).has_cause("Unreachable"));
        for cause in Cause::ALL {
            assert_eq!(Cause::of(&no_answer(cause, "")), Some(cause));
        }
        assert_eq!(Cause::of(&Status::service_unavailable("")), None);
    }
}
