//! Paginated lists that adapt the page size to a memory limit.

use atoll_client::Client;
use atoll_client::memory_limits::is_too_large;
use atoll_meta::Status;
use serde_json::Value;

/// Objects per page.
const PAGE_SIZE: usize = 500;
/// Number of consecutive empty pages after which a list is considered endless.
const MAX_EMPTY_PAGES: usize = 1000;

/// Position in a list. A page that is too large is requested again with a smaller limit.
#[derive(Debug)]
pub struct Pages {
    limit: usize,
    empty: usize,
}

impl Default for Pages {
    fn default() -> Pages {
        Pages { limit: PAGE_SIZE, empty: 0 }
    }
}

impl Pages {
    /// Returns the next page; `ask` requests it with a limit.
    pub async fn next<F>(&mut self, client: &Client, ask: impl Fn(usize) -> F) -> Result<Value, Status>
    where
        F: Future<Output = Result<Value, Status>>,
    {
        let page = loop {
            let turn = match client.budget() {
                Some(budget) => budget.page().await,
                None => None,
            };
            let answer = ask(self.limit).await;
            drop(turn);
            match answer {
                Err(status) if is_too_large(&status) && self.limit > 1 => {
                    self.limit = (self.limit / 4).max(1)
                }
                Err(status) => {
                    if let Some(budget) = client.budget() {
                        budget.note(&status);
                    }
                    return Err(status);
                }
                Ok(page) => break page,
            }
        };
        // A single large object makes only one page small.
        self.limit = (self.limit * 2).min(PAGE_SIZE);
        self.empty = match page["items"].as_array().is_none_or(Vec::is_empty) {
            true => self.empty + 1,
            false => 0,
        };
        match self.empty > MAX_EMPTY_PAGES {
            true => Err(Status::internal_error(format!(
                "the server returned {MAX_EMPTY_PAGES} consecutive pages without an object"
            ))),
            false => Ok(page),
        }
    }
}
