//! Work on many things at once, for when a server starts: nothing else keeps its cores busy then.

use std::num::NonZero;
use std::thread;

/// Fewer things for each core are not worth a thread.
const LEAST: usize = 128;

/// What `make` makes of each of `items`, in their order.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = items.len().div_ceil(cores).max(LEAST);
    let mut shares = items.chunks(share);
    let first = shares.next().unwrap_or_default();
    thread::scope(|scope| {
        let make = &make;
        let others: Vec<_> =
            shares.map(|share| scope.spawn(move || share.iter().map(make).collect::<Vec<R>>())).collect();
        let mut made = Vec::with_capacity(items.len());
        made.extend(first.iter().map(make));
        for other in others {
            match other.join() {
                Ok(others) => made.extend(others),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        made
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_in_order() {
        for count in [0, 1, LEAST - 1, LEAST, LEAST + 1, 10 * LEAST + 7, 100 * LEAST] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(map(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
