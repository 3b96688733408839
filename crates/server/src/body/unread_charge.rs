//! The charge for a response or a stream of a cluster. What a client does not read stays in the buffers of the
//! connection to the cluster, of which nothing is known here but their limit: that limit is charged for as long as more
//! may arrive than is asked for.

use std::sync::Arc;

use atoll_client::memory_limits::{Budget, Charge};
use atoll_meta::Status;

use crate::sync::OpenRequest;

/// Memory of a request that is under way, without its contents.
const REQUEST: usize = 16 << 10;

pub struct UnreadCharge {
    charge: Charge,
    /// Charged until the end: the request and the headers of its response.
    fixed: usize,
    /// Charged while data may arrive that nothing waits for.
    unread: usize,
    /// The request of a user, which is open for as long.
    request: Option<OpenRequest>,
}

impl UnreadCharge {
    /// Charges a response that has begun. `contents` is the size of the request and of the response's headers, and
    /// `unread` the limit of unread data.
    pub fn new(budget: Arc<Budget>, contents: usize, unread: usize) -> Result<UnreadCharge, Status> {
        let mut begun = UnreadCharge {
            charge: Charge::new(Some(budget)),
            fixed: REQUEST + contents,
            unread,
            request: None,
        };
        begun.received(0)?;
        Ok(begun)
    }

    /// Keeps the request of a user open.
    pub fn with_request(mut self, request: OpenRequest) -> UnreadCharge {
        self.request = Some(request);
        self
    }

    /// Data was handed to the client, which has not asked for more.
    pub fn received(&mut self, bytes: usize) -> Result<(), Status> {
        self.charge.set(self.fixed + self.unread.max(bytes))
    }

    /// Everything that has arrived was read, and the client waits for more.
    pub fn drained(&mut self) {
        // A charge that shrinks is never refused.
        let _ = self.charge.set(self.fixed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_data_is_charged_until_it_is_read() {
        let budget = Budget::new(REQUEST + 150);
        let mut charge = UnreadCharge::new(budget.clone(), 20, 100).unwrap();
        assert_eq!(budget.used(), REQUEST + 120, "nothing was read yet");
        charge.drained();
        assert_eq!(budget.used(), REQUEST + 20);
        assert!(UnreadCharge::new(budget.clone(), 0, 0).is_err(), "there is no room for another request");
        charge.received(10).unwrap();
        assert_eq!(budget.used(), REQUEST + 120);
        charge.received(130).unwrap();
        assert_eq!(budget.used(), REQUEST + 150);
        assert!(charge.received(131).is_err());
        drop(charge);
        assert_eq!(budget.used(), 0);
    }
}
