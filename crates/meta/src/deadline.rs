//! Ending work that takes too long, without a clock: whether it does is for the caller to say.

use std::cell::Cell;

/// So many steps are taken before it is asked whether time is up.
const STEPS: usize = 1024;

/// When work is to be abandoned. Work counts its steps; once time is up it comes to an end with any result, and the caller asks
/// whether the result counts.
pub struct Deadline<'a> {
    is_over: &'a dyn Fn() -> bool,
    steps: Cell<usize>,
    passed: Cell<bool>,
}

impl Deadline<'static> {
    /// Work may take as long as it takes.
    pub fn never() -> Deadline<'static> {
        Deadline::new(&|| false)
    }
}

impl<'a> Deadline<'a> {
    /// Work is abandoned once `is_over` says so.
    pub fn new(is_over: &'a dyn Fn() -> bool) -> Deadline<'a> {
        Deadline { is_over, steps: Cell::new(0), passed: Cell::new(false) }
    }

    /// Takes a step; whether work is to be abandoned.
    pub fn step(&self) -> bool {
        self.steps(1)
    }

    /// Takes so many steps at once.
    pub fn steps(&self, count: usize) -> bool {
        let steps = self.steps.get().saturating_add(count);
        if steps < STEPS {
            self.steps.set(steps);
        } else {
            self.steps.set(0);
            if !self.passed.get() && (self.is_over)() {
                self.passed.set(true);
            }
        }
        self.passed.get()
    }

    /// Whether work was abandoned, so that its result does not count.
    pub fn has_passed(&self) -> bool {
        self.passed.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_asked_for_now_and_then() {
        let asked = Cell::new(0);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() == 3
        };
        let deadline = Deadline::new(&is_over);
        assert_eq!((1..).find(|_| deadline.step()), Some(3 * STEPS));
        assert!(deadline.has_passed() && deadline.step());
        assert_eq!(asked.get(), 3, "it is not asked again");
        let deadline = Deadline::new(&|| true);
        assert!(!deadline.has_passed() && !deadline.step() && deadline.steps(STEPS) && deadline.has_passed());
        assert!(!Deadline::never().steps(usize::MAX));
    }
}
