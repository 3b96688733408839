//! A parallel map, for loading at startup when nothing else uses the cores.

use std::num::NonZero;
use std::thread;

/// Minimum number of items per thread.
const MIN_PER_THREAD: usize = 128;

/// The results of `make` for each of `items`, in order.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = items.len().div_ceil(cores).max(MIN_PER_THREAD);
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
    fn results_are_in_order() {
        for count in [
            0,
            1,
            MIN_PER_THREAD - 1,
            MIN_PER_THREAD,
            MIN_PER_THREAD + 1,
            10 * MIN_PER_THREAD + 7,
            100 * MIN_PER_THREAD,
        ] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(map(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
