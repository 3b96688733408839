//! Lists in pages that are no larger than they may be.

use atoll_client::Client;
use atoll_client::memory::is_too_large;
use atoll_meta::Status;
use serde_json::Value;

/// Objects for each page of a list.
const PAGE: usize = 500;
/// A list that goes on for so many pages without an object has no end.
const EMPTY: usize = 1000;

/// How far a list was read. A page of large objects is asked for again with fewer of them.
#[derive(Debug)]
pub struct Pages {
    limit: usize,
    empty: usize,
}

impl Default for Pages {
    fn default() -> Pages {
        Pages { limit: PAGE, empty: 0 }
    }
}

impl Pages {
    /// The next page, which `ask` gets for a limit.
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
        // One large object makes one page small, not all that follow.
        self.limit = (self.limit * 2).min(PAGE);
        self.empty = match page["items"].as_array().is_none_or(Vec::is_empty) {
            true => self.empty + 1,
            false => 0,
        };
        match self.empty > EMPTY {
            true => {
                Err(Status::internal_error(format!("the list has {EMPTY} pages in a row without an object")))
            }
            false => Ok(page),
        }
    }
}
