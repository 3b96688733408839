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
    shared: OnceCell<Rc<Node>>,
}

/// The last steps of a path, and those before them. The nil path has neither.
#[derive(Clone, Debug, Default)]
struct Steps {
    before: Option<Rc<Node>>,
    first: Option<Step>,
    second: Option<Step>,
}

/// A step that is cheap to copy.
#[derive(Clone, Copy, Debug)]
enum Step {
    Field(&'static str),
    Index(usize),
}

/// Steps that several paths share, and a step after them if it is not a [`Step`].
#[derive(Debug)]
struct Node {
    steps: Steps,
    owned: Option<OwnedStep>,
}

#[derive(Debug)]
enum OwnedStep {
    Field(Box<str>),
    Key(Box<str>),
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
    #[inline]
    pub fn child(&self, name: impl Into<Cow<'static, str>>) -> FieldPath {
        match name.into() {
            Cow::Borrowed(name) => self.step(Step::Field(name)),
            Cow::Owned(name) => self.owned_step(OwnedStep::Field(name.into())),
        }
    }

    /// Returns the path of an element of this list.
    #[inline]
    pub fn index(&self, index: usize) -> FieldPath {
        self.step(Step::Index(index))
    }

    /// Returns the path of an entry of this map.
    pub fn key(&self, key: &str) -> FieldPath {
        self.owned_step(OwnedStep::Key(key.into()))
    }

    #[inline]
    fn step(&self, step: Step) -> FieldPath {
        let Steps { before, first, second } = &self.steps;
        let steps = match (*first, *second) {
            (None, _) => Steps { before: before.clone(), first: Some(step), second: None },
            (first, None) => Steps { before: before.clone(), first, second: Some(step) },
            _ => Steps { before: Some(self.shared()), first: Some(step), second: None },
        };
        FieldPath { steps, shared: OnceCell::new() }
    }

    fn shared(&self) -> Rc<Node> {
        let node = || Rc::new(Node { steps: self.steps.clone(), owned: None });
        Rc::clone(self.shared.get_or_init(node))
    }

    fn owned_step(&self, step: OwnedStep) -> FieldPath {
        let node = Node { steps: self.steps.clone(), owned: Some(step) };
        let steps = Steps { before: Some(Rc::new(node)), first: None, second: None };
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
        if self.steps.is_nil() { f.write_str("<nil>") } else { self.steps.fmt(f) }
    }
}

impl Steps {
    fn is_nil(&self) -> bool {
        self.before.is_none() && self.first.is_none()
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_root = true;
        if let Some(node) = &self.before {
            node.fmt(f)?;
            is_root = false;
        }
        for step in [self.first, self.second].into_iter().flatten() {
            match step {
                Step::Field(name) if is_root => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
            is_root = false;
        }
        Ok(())
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.fmt(f)?;
        match &self.owned {
            None => Ok(()),
            Some(OwnedStep::Field(name)) if self.steps.is_nil() => f.write_str(name),
            Some(OwnedStep::Field(name)) => write!(f, ".{name}"),
            Some(OwnedStep::Key(key)) => write!(f, "[{key}]"),
        }
    }
}
