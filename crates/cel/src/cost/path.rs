//! Paths that share their memory as upstream's do.
//!
//! There a path is made longer in place where there is room, so that two paths with a common beginning can become one: the
//! one that was made later. Estimates depend on it, and with them which expressions are refused: in `i.tags.all(t, i.name.contains(t))`
//! the size of `i.tags` is asked for when its path has become that of `i.name`. So the same must happen here.

use std::cell::RefCell;
use std::rc::Rc;

/// Steps from a variable.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// May be longer, and may be shared.
    steps: Rc<RefCell<Vec<Rc<str>>>>,
    length: usize,
    room: usize,
}

impl Path {
    /// Only a variable.
    pub fn new(variable: &str) -> Path {
        Path { steps: Rc::new(RefCell::new(vec![variable.into()])), length: 1, room: 1 }
    }

    /// One step further: in the same memory if there is room, else in twice as much.
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

    /// Whether it leads nowhere.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// What it says now.
    pub fn read(&self) -> Vec<String> {
        self.steps.borrow()[..self.length].iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn later_steps_take_the_place_of_earlier_ones() {
        let item = Path::new("self").then("items").then("@items");
        let tags = item.then("tags");
        assert_eq!(tags.read().join("."), "self.items.@items.tags");
        let inner = tags.then("@items");
        item.then("name");
        assert_eq!(tags.read().join("."), "self.items.@items.name");
        assert_eq!(inner.read().join("."), "self.items.@items.tags.@items");
    }
}
