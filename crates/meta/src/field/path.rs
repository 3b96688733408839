//! Field paths.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/path.go

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

/// The path of a field as upstream prints it: `spec.containers[0].image`, `data[some key]`.
///
/// Most checked fields are valid, so a path is only formatted in an error, and creating one seldom allocates:
/// a path contains its last one or two steps, and shares those before them with its siblings.
#[derive(Clone, Debug, Default)]
pub struct FieldPath {
    steps: Steps,
    /// The steps as the paths below this one share them, once there are any.
    shared: OnceCell<Rc<Steps>>,
}

/// One or two steps and those before them; none at all in the nil path.
#[derive(Clone, Debug, Default)]
struct Steps {
    before: Option<Rc<Steps>>,
    first: Option<Step>,
    second: Option<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Field(&'static str),
    OwnedField(Rc<str>),
    Index(usize),
    Key(Rc<str>),
}

impl FieldPath {
    /// Creates the path of a field of the object itself.
    pub fn new(name: impl Into<Cow<'static, str>>) -> FieldPath {
        FieldPath::nil().child(name)
    }

    /// Creates the path that upstream passes as nil. Its children are root paths; it prints as `<nil>`
    /// itself.
    pub fn nil() -> FieldPath {
        FieldPath::default()
    }

    /// Returns the path of a field below this one.
    pub fn child(&self, name: impl Into<Cow<'static, str>>) -> FieldPath {
        self.step(match name.into() {
            Cow::Borrowed(name) => Step::Field(name),
            Cow::Owned(name) => Step::OwnedField(name.into()),
        })
    }

    /// Returns the path of an element of this list.
    pub fn index(&self, index: usize) -> FieldPath {
        self.step(Step::Index(index))
    }

    /// Returns the path of an entry of this map.
    pub fn key(&self, key: &str) -> FieldPath {
        self.step(Step::Key(key.into()))
    }

    fn step(&self, step: Step) -> FieldPath {
        let Steps { before, first, second } = &self.steps;
        let steps = match (first, second) {
            (None, _) => Steps { before: None, first: Some(step), second: None },
            (first, None) => Steps { before: before.clone(), first: first.clone(), second: Some(step) },
            _ => {
                let shared = self.shared.get_or_init(|| Rc::new(self.steps.clone()));
                Steps { before: Some(Rc::clone(shared)), first: Some(step), second: None }
            }
        };
        FieldPath { steps, shared: OnceCell::new() }
    }
}

impl From<&'static str> for FieldPath {
    fn from(name: &'static str) -> FieldPath {
        FieldPath::new(name)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.first.is_none() { f.write_str("<nil>") } else { self.steps.fmt(f) }
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(before) = &self.before {
            before.fmt(f)?;
        }
        let mut is_root = self.before.is_none();
        for step in [&self.first, &self.second].into_iter().flatten() {
            match step {
                Step::Field(name) if is_root => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::OwnedField(name) if is_root => f.write_str(name)?,
                Step::OwnedField(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => write!(f, "[{key}]")?,
            }
            is_root = false;
        }
        Ok(())
    }
}
