//! Paths that share their memory as upstream's do.
//!
//! Go's `append` extends a path in place if its capacity allows, so that two paths with a common prefix can
//! overwrite each other: the later one wins. Estimates, and therefore which expressions are rejected, depend
//! on that: in `i.tags.all(t, i.name.contains(t))` the size of `i.tags` is looked up after its path was
//! overwritten by that of `i.name`. This type reproduces that behaviour.

// upstream: github.com/google/cel-go/checker/cost.go

use std::cell::RefCell;
use std::rc::Rc;

/// Steps from a variable.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// Backing array, which may be longer and shared.
    steps: Rc<RefCell<Vec<Rc<str>>>>,
    length: usize,
    room: usize,
}

impl Path {
    /// Creates a path of a variable without steps.
    pub fn new(variable: &str) -> Path {
        Path { steps: Rc::new(RefCell::new(vec![variable.into()])), length: 1, room: 1 }
    }

    /// Appends a step: in the same memory if there is capacity, else in a copy of twice the size.
    pub fn then(&self, step: &str) -> Path {
        if self.length < self.room {
            let mut steps = self.steps.borrow_mut();
            match steps.get_mut(self.length) {
                Some(old) => *old = step.into(),
                None => steps.push(step.into()),
            }
            return Path { steps: self.steps.clone(), length: self.length + 1, room: self.room };
        }
        let mut steps = self.steps.borrow()[..self.length].to_vec();
        steps.push(step.into());
        Path { steps: Rc::new(RefCell::new(steps)), length: self.length + 1, room: (self.room * 2).max(1) }
    }

    /// Whether the path is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the current contents.
    pub fn read(&self) -> Vec<String> {
        self.steps.borrow()[..self.length].iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn later_steps_overwrite_earlier_ones() {
        let item = Path::new("self").then("items").then("@items");
        let tags = item.then("tags");
        assert_eq!(tags.read().join("."), "self.items.@items.tags");
        let inner = tags.then("@items");
        item.then("name");
        assert_eq!(tags.read().join("."), "self.items.@items.name");
        assert_eq!(inner.read().join("."), "self.items.@items.tags.@items");
    }
}
