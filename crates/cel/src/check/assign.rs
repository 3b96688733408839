//! Assignability of types: unification of type parameters.

// upstream: github.com/google/cel-go/checker/types.go
// upstream: github.com/google/cel-go/checker/mapping.go

use std::collections::HashMap;
use std::sync::Arc;

use crate::types::Type;

/// Bindings of type parameters.
#[derive(Debug, Default)]
pub struct Substitutions {
    found: HashMap<Arc<str>, Type>,
    /// Previous bindings, to be restored if the current attempt fails.
    undo: Vec<(Arc<str>, Option<Type>)>,
}

impl Substitutions {
    /// Whether one type is assignable to the other, in either direction. Binds type parameters on success
    /// only.
    pub fn assignable(&mut self, one: &Type, two: &Type) -> bool {
        self.attempt(|it| it.fits(one, two))
    }

    /// Whether all types are assignable to their counterparts.
    pub fn all_assignable(&mut self, ones: &[Type], twos: &[Type]) -> bool {
        self.attempt(|it| it.all_fit(ones, twos))
    }

    fn attempt(&mut self, attempt: impl FnOnce(&mut Self) -> bool) -> bool {
        self.undo.clear();
        if attempt(self) {
            return true;
        }
        for (name, before) in self.undo.drain(..).rev() {
            match before {
                Some(before) => self.found.insert(name, before),
                None => self.found.remove(&name),
            };
        }
        false
    }

    /// Binds a type parameter.
    fn bind(&mut self, name: &Arc<str>, to: Type) {
        let before = self.found.insert(name.clone(), to);
        self.undo.push((name.clone(), before));
    }

    fn all_fit(&mut self, ones: &[Type], twos: &[Type]) -> bool {
        ones.len() == twos.len() && ones.iter().zip(twos).all(|(one, two)| self.fits(one, two))
    }

    fn fits(&mut self, one: &Type, two: &Type) -> bool {
        if let Type::Parameter(name) = two {
            match self.can_bind(one, name, two) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Parameter(name) = one {
            return self.can_bind(two, name, one).0;
        }
        match (one, two) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null | Type::Opaque(..) | Type::Object(..) | Type::Duration | Type::Timestamp
            ),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(one), Type::List(two)) => self.fits(one, two),
            (Type::Map(one), Type::Map(two)) => self.all_fit(&one[..], &two[..]),
            (Type::Opaque(one, first), Type::Opaque(two, second)) => {
                one == two && self.all_fit(first, second)
            }
            (one, two) => one == two,
        }
    }

    /// Whether a type parameter can be bound to this type, and whether it was bound before.
    fn can_bind(&mut self, kind: &Type, name: &Arc<str>, parameter: &Type) -> (bool, bool) {
        if kind == parameter {
            return (true, true);
        }
        if let Some(known) = self.found.get(name).cloned() {
            if *kind == known {
                return (true, true);
            }
            if !self.fits(kind, &known) {
                return (false, true);
            }
            let general = most_general(kind, &known).clone();
            if self.does_not_occur_in(name, &general) {
                self.bind(name, general);
            }
            return (true, true);
        }
        if self.does_not_occur_in(name, kind) {
            self.bind(name, kind.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether a type parameter does not occur in a type.
    fn does_not_occur_in(&self, name: &Arc<str>, within: &Type) -> bool {
        match within {
            Type::Parameter(other) if other == name => false,
            Type::Parameter(other) => {
                self.found.get(other).is_none_or(|known| self.does_not_occur_in(name, known))
            }
            other => other.parameters().iter().all(|parameter| self.does_not_occur_in(name, parameter)),
        }
    }

    /// Substitutes the known type parameters of a type. Unknown ones become `dyn` if `unknown_to_dyn` is set.
    pub fn applied(&self, kind: &Type, unknown_to_dyn: bool) -> Type {
        let again = |kind: &Type| self.applied(kind, unknown_to_dyn);
        match kind {
            Type::Parameter(name) => match self.found.get(name) {
                Some(known) => again(known),
                None if unknown_to_dyn => Type::Dyn,
                None => kind.clone(),
            },
            Type::List(items) => Type::list(again(items)),
            Type::Map(both) => Type::map(again(&both[0]), again(&both[1])),
            Type::Opaque(name, parameters) if !parameters.is_empty() => {
                Type::Opaque(name.clone(), parameters.iter().map(again).collect())
            }
            Type::Type(Some(of)) => Type::Type(Some(Arc::new(again(of)))),
            other => other.clone(),
        }
    }
}

/// Returns the more general of two compatible types.
pub fn most_general<'a>(one: &'a Type, two: &'a Type) -> &'a Type {
    if less_specific(one, two) { one } else { two }
}

fn less_specific(one: &Type, two: &Type) -> bool {
    match (one, two) {
        (Type::Dyn | Type::Parameter(_), _) => true,
        (_, Type::Dyn | Type::Parameter(_)) => false,
        (Type::Type(_), Type::Type(_)) => true,
        (Type::List(one), Type::List(two)) => less_specific(one, two),
        (Type::Map(one), Type::Map(two)) => {
            less_specific(&one[0], &two[0]) && less_specific(&one[1], &two[1])
        }
        (Type::Opaque(one, first), Type::Opaque(two, second)) => {
            one == two
                && first.len() == second.len()
                && first.iter().zip(&second[..]).all(|(one, two)| less_specific(one, two))
        }
        (one, two) => one == two,
    }
}
