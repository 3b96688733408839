//! Cancellation of work that takes too long. The caller supplies the clock.

use std::cell::Cell;

/// Number of steps between two checks of the time.
const STEPS_PER_CHECK: usize = 1024;

/// A deadline for work that counts its steps. After the deadline the work returns any result, and the caller
/// checks whether the result is valid.
pub struct Deadline<'a> {
    is_over: &'a dyn Fn() -> bool,
    steps: Cell<usize>,
    passed: Cell<bool>,
}

impl Deadline<'static> {
    /// Creates a deadline that never passes.
    pub fn never() -> Deadline<'static> {
        Deadline::new(&|| false)
    }
}

impl<'a> Deadline<'a> {
    /// Creates a deadline that passes once `is_over` returns true.
    pub fn new(is_over: &'a dyn Fn() -> bool) -> Deadline<'a> {
        Deadline { is_over, steps: Cell::new(0), passed: Cell::new(false) }
    }

    /// Counts a step. Returns whether to stop.
    pub fn step(&self) -> bool {
        self.steps(1)
    }

    /// Counts several steps. Returns whether to stop.
    pub fn steps(&self, count: usize) -> bool {
        let steps = self.steps.get().saturating_add(count);
        if steps < STEPS_PER_CHECK {
            self.steps.set(steps);
        } else {
            self.steps.set(0);
            if !self.passed.get() && (self.is_over)() {
                self.passed.set(true);
            }
        }
        self.passed.get()
    }

    /// Whether the deadline has passed, so that the result is not valid.
    pub fn has_passed(&self) -> bool {
        self.passed.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_is_checked_every_so_many_steps() {
        let checks = Cell::new(0);
        let is_over = || {
            checks.set(checks.get() + 1);
            checks.get() == 3
        };
        let deadline = Deadline::new(&is_over);
        assert_eq!((1..).find(|_| deadline.step()), Some(3 * STEPS_PER_CHECK));
        assert!(deadline.has_passed() && deadline.step());
        assert_eq!(checks.get(), 3, "it is not asked again");
        let deadline = Deadline::new(&|| true);
        assert!(
            !deadline.has_passed()
                && !deadline.step()
                && deadline.steps(STEPS_PER_CHECK)
                && deadline.has_passed()
        );
        assert!(!Deadline::never().steps(usize::MAX));
    }
}
